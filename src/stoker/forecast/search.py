"""Searches for a run file as for any other model, and writes what it finds as a run file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

from stoker.errors import Mistake, UserError
from stoker.forecast.request import Options, model_source, refuse_options
from stoker.forecast.run import MOST_PER_MACHINE, is_run_file
from stoker.plan.hardware import find_gpu, find_link
from stoker.plan.layout import Layout
from stoker.plan.search.family import Family, ModelFamily
from stoker.plan.search.outcome import Found, Goal, Option, best
from stoker.plan.search.space import Cuts, Servers, Shape
from stoker.plan.trace.run import Source
from stoker.plan.workload import PRECISIONS, Checkpointing, Precision
from stoker.train.spec import LoadedSpec, load_spec
from stoker.train.spec.quantity import Quantity

TOKENS_PER_STEP = 1 << 20
"""Of a language model where no batch is given: within the 0.5 to 4 million tokens of published runs
(Brown et al. 2020, arXiv 2005.14165, table 2.1; Llama 3, arXiv 2407.21783, section 3.4.1)."""
SAMPLES_PER_STEP = 256
"""Of any other model where no batch is given."""
TOKENS, SAMPLES = 1e9, 1e6
"""To train on where it is not said."""


@dataclass(frozen=True)
class RunFamily:
    """The task of a run file in every layout and shape.

    Attributes:
        loaded: The run file.
    """

    loaded: LoadedSpec

    @property
    def name(self) -> str:
        """The task."""
        return self.loaded.spec.task.use.rsplit("/", 1)[-1]

    @property
    def cuts(self) -> Cuts:
        """A task is whole on each rank, or sharded."""
        return Cuts()

    @property
    def layers(self) -> int | None:
        """A task says nothing of its depth."""
        return None

    @property
    def checkpointings(self) -> tuple[Checkpointing, ...]:
        """Those of `memory.activation_checkpointing` that a search tries; what the file asks for is kept."""
        return ("none", "full")

    def source(self, layout: Layout, shape: Shape, layers: int | None = None) -> Source:
        """Plain values only."""
        del layers
        spec = self.loaded.spec.model_dump(mode="json")
        spec["precision"] = shape.precision
        spec["batch"]["micro_size"] = shape.micro_batch
        spec["memory"]["activation_checkpointing"] = shape.checkpointing
        arguments = {
            "spec": spec,
            "folder": str(self.loaded.folder),
            "device": "cuda",
            "capability": (8, 0),  # the number format is decided already
            "world_size": layout.data_ranks,
            "local_size": min(layout.ranks, MOST_PER_MACHINE),
        }
        return Source("stoker.forecast.workload:run_workload", arguments, {"accumulation": shape.accumulation})


@dataclass(frozen=True)
class Task:
    """A search that is asked for.

    Attributes:
        family: The model.
        places: Servers to try.
        goal: What is to be done.
        precision: Number format; None for the best of each GPU.
        loaded: The run file; None for anything else.
    """

    family: Family
    places: tuple[Servers, ...]
    goal: Goal
    precision: Precision | None
    loaded: LoadedSpec | None


def read_task(
    target: str,
    overrides: Sequence[str],
    options: Options,
    *,
    places: tuple[Servers, ...],
    global_batch: int | None,
    tokens: float | None,
    samples: float | None,
    deadline: str | None,
) -> Task:
    """What to search for.

    Raises:
        UserError: With what is wrong.
    """
    hours = read_hours(deadline)
    if is_run_file(target):
        refuse_options(options)
        loaded = load_spec(Path(target), overrides)
        batch = loaded.spec.batch.global_size
        if global_batch not in (None, batch):
            raise UserError(
                Mistake(f"the run file decides this: write batch.global_size={global_batch}", "--global-batch")
            )
        if tokens is not None:
            raise UserError(Mistake("a task counts samples: give --samples", "--tokens"))
        work = samples if samples is not None else samples_of(loaded)
        return Task(RunFamily(loaded), places, Goal(batch, work, hours), _precision_of(loaded), loaded)
    model_source(target, overrides, options)  # says what is wrong with them
    if options.precision == "fp8":
        raise UserError(
            Mistake("stoker train does not run fp8, so no layout is searched for it: write bf16", "--precision")
        )
    family = _family(target, options)
    per_sample = _tokens_per_sample(family, options)
    if tokens is not None and per_sample is None:
        raise UserError(Mistake(f"{target} has no tokens: give --samples", "--tokens"))
    batch = global_batch or (SAMPLES_PER_STEP if per_sample is None else max(1, TOKENS_PER_STEP // per_sample))
    work = samples if samples is not None else SAMPLES if per_sample is None else (tokens or TOKENS) / per_sample
    return Task(family, places, Goal(batch, work, hours), cast(Precision | None, options.precision), None)


def _family(target: str, options: Options) -> ModelFamily:
    given = {"image_size": options.image_size or 224, "sequence": options.sequence}
    return ModelFamily(target, given, {"optimizer": options.optimizer} if options.optimizer else {})


def _tokens_per_sample(family: ModelFamily, options: Options) -> int | None:
    return None if family.config is None else options.sequence or family.config.positions


def _precision_of(loaded: LoadedSpec) -> Precision | None:
    wanted = loaded.spec.precision
    if wanted == "auto":
        return None
    if wanted not in PRECISIONS:
        raise UserError(f"precision: {wanted} is for proofs, and no layout is searched for it: write fp32, or auto")
    return wanted


def samples_of(loaded: LoadedSpec) -> float:
    """Samples of a whole run, from its duration and the length of its data.

    Raises:
        UserError: The duration is a time or counts tokens.
    """
    duration, batch = loaded.spec.duration, loaded.spec.batch.global_size
    if duration.unit == "steps":
        return duration.amount * batch
    if duration.unit == "epochs":
        from stoker.data.loader import length_of
        from stoker.train.find_task import find_task

        return duration.amount * length_of(find_task(loaded.spec.task, loaded.folder).train_data())
    raise UserError(f"duration: {duration} does not say how many samples: give --samples")


def read_hours(text: str | None) -> float | None:
    """A deadline such as `30 days`, in hours.

    Raises:
        UserError: It is none.
    """
    if text is None:
        return None
    try:
        return Quantity.parse(text, ("seconds",)).amount / 3600
    except ValueError:
        raise UserError(Mistake(f"{text!r} is not understood: write '30 days' or '12 hours'", "--deadline")) from None


def read_places(
    gpus: Sequence[str], *, servers: int, per_server: int, network: str, prices: Sequence[str], several: bool
) -> tuple[Servers, ...]:
    """Servers of each kind of GPU.

    Args:
        gpus: Names.
        servers: How many, or how many at most.
        per_server: GPUs in each.
        network: Link between them.
        prices: Words `NAME=VALUE`.
        several: Try fewer servers too: 1, 2, 4 and so on.

    Raises:
        UserError: A name is not known, or a price cannot be read.
    """
    find_link(network, "network")
    known = read_prices(prices)
    counts = sorted({*(1 << power for power in range(servers.bit_length())), servers}) if several else [servers]
    kinds = {gpu.name: gpu for gpu in map(find_gpu, gpus)}
    return tuple(
        Servers(gpu, count, per_server, network, known.get(name)) for count in counts for name, gpu in kinds.items()
    )


def read_prices(words: Sequence[str]) -> dict[str, float]:
    """Price of a GPU hour by the GPU's full name.

    Raises:
        UserError: A word is not NAME=VALUE.
    """
    prices: dict[str, float] = {}
    for word in words:
        name, _, value = word.rpartition("=")
        try:
            prices[find_gpu(name).name] = float(value)
        except ValueError:
            raise UserError(Mistake(f"{word!r} is no price: write for example 'H100 SXM=2.5'", "--price")) from None
    return prices


def winning_spec(loaded: LoadedSpec, found: Found, goal: Goal) -> tuple[Mapping[str, Any], Option]:
    """The fields of a run file for the best layout that training can run, and the option it is.

    Raises:
        UserError: None of those fits.
    """
    option = best([one for one in found.options if one.plain], goal)
    if option is None:
        raise UserError(
            "no run file was written: stoker train runs single GPUs and DDP so far, and neither fits on these servers"
        )
    fields: dict[str, Any] = loaded.spec.model_dump(mode="json", exclude_defaults=True)
    fields["batch"] = {
        **fields.get("batch", {}),
        "global_size": goal.global_batch,
        "micro_size": option.shape.micro_batch,
    }
    fields["parallel"] = {**fields.get("parallel", {}), "strategy": "single" if option.layout.ranks == 1 else "ddp"}
    fields["memory"] = {**fields.get("memory", {}), "activation_checkpointing": option.shape.checkpointing}
    fields["precision"] = option.shape.precision
    return fields, option


def run_file_text(fields: Mapping[str, Any], option: Option) -> str:
    """A run file that says where it comes from."""
    gib = option.device_bytes / (1 << 30)
    head = (
        f"# Written by `stoker plan search` for {option.servers}: {option.layout},\n"
        f"# {option.step_seconds.expected:.3g} s a step ({option.step_seconds.low:.3g} to"
        f" {option.step_seconds.high:.3g}), {gib:.1f} GiB on each GPU ({option.verdict}).\n"
    )
    return head + yaml.safe_dump(dict(fields), sort_keys=False, allow_unicode=True)
