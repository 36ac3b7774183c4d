"""From what is asked on the command line of `stoker plan` to what the planner takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import Mistake, UserError
from stoker.forecast.run import is_run_file, run_layout, run_source
from stoker.plan.calibrate import read_profile
from stoker.plan.cpu import this_cpu
from stoker.plan.hardware import Gpu, find_gpu
from stoker.plan.layout import Layout, parse_layout
from stoker.plan.trace.run import Source
from stoker.plan.workload import CHECKPOINTINGS, OPTIMIZERS, PRECISIONS

FIELDS = {
    "precision": "precision",
    "checkpointing": "memory.activation_checkpointing",
    "micro_batch": "batch.micro_size",
    "accumulation": "batch.global_size",
    "optimizer": "optimizer.name",
    "sequence": "task.options",
    "image_size": "task.options",
}
"""Options that a run file decides, and its field for each."""


@dataclass(frozen=True)
class Options:
    """What may be said of a workload that is not a run file; None for what the workload itself says.

    Attributes:
        precision: Number format; bf16 by default.
        checkpointing: Which activations are computed again; none by default.
        micro_batch: Samples per GPU and forward pass; 1 by default.
        accumulation: Micro-batches per step; 1 by default.
        optimizer: By name.
        sequence: Tokens per sample of language models; the longest by default.
        image_size: Height and width of images; 224 by default.
    """

    precision: str | None = None
    checkpointing: str | None = None
    micro_batch: int | None = None
    accumulation: int | None = None
    optimizer: str | None = None
    sequence: int | None = None
    image_size: int | None = None


@dataclass(frozen=True)
class Planned:
    """What is to be planned, on what, and how it is arranged."""

    source: Source
    gpu: Gpu
    layout: Layout


def resolve(
    target: str,
    overrides: Sequence[str],
    options: Options,
    *,
    gpu: str,
    gpus: int | None,
    layout: str,
    profile: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Planned:
    """Find the workload, the device and the layout.

    Args:
        target: A run file, or what `stoker.plan.workload.load_workload` takes.
        overrides: Words `key.path=value` for a run file.
        options: For anything but a run file.
        gpu: A GPU's name, or `cpu` for this machine.
        gpus: Number of devices.
        layout: As `parse_layout` reads it; empty for the usual one.
        profile: Calibration file for the device.
        say: Is told what takes a while.

    Raises:
        UserError: With every mistake.
    """
    device = find_device(gpu, gpus or 1, profile, say=say)
    if is_run_file(target):
        refuse_options(options)
        from stoker.train.spec import load_spec

        loaded = load_spec(Path(target), overrides)
        arranged = run_layout(loaded.spec, gpus, layout)
        return Planned(run_source(loaded, device, arranged), device, arranged)
    refuse_float8(options.precision, device)
    usual = "single" if (gpus or 1) == 1 else "ddp" if device.on_cpu else "fsdp2"
    return Planned(model_source(target, overrides, options), device, parse_layout(layout or usual, gpus))


def read_sources(target: str, options: Options, devices: Sequence[Gpu]) -> tuple[Callable[[Gpu, Layout], Source], str]:
    """How to make the workload on any device and layout, and a line on what it is.

    Args:
        target: A run file, or what `stoker.plan.workload.load_workload` takes.
        options: For anything but a run file.
        devices: On which it will be planned.

    Raises:
        UserError: With every mistake.
    """
    if is_run_file(target):
        refuse_options(options)
        from stoker.train.spec import load_spec

        loaded = load_spec(Path(target), ())
        return functools.partial(run_source, loaded), f"{target}: precision {loaded.spec.precision}"
    source = model_source(target, (), options)
    refuse_float8(options.precision, *devices)
    given = source.changes
    what = f"{given['precision']}, {source.arguments['micro_batch']} samples per card and pass"
    return lambda _gpu, _layout: source, f"{target}: {what}, checkpointing {given['checkpointing']}"


def find_device(gpu: str, count: int, profile: Path | None, *, say: Callable[[str], None]) -> Gpu:
    """The device by its name, as measured where there is a profile of it."""
    if gpu.lower() == "cpu":
        return this_cpu(count, profile=profile, say=say)
    found = find_gpu(gpu)
    return found if profile is None else found.with_efficiency(read_profile(profile).fractions(found))


def refuse_float8(precision: str | None, *devices: Gpu) -> None:
    """Say which devices have no matrix products in eight bits, where those are asked for.

    Raises:
        UserError: Some have none.
    """
    without = [device.name for device in devices if "float8" not in device.flops]
    if precision == "fp8" and without:
        raise UserError(Mistake(f"no products in float8 are known of {', '.join(without)}: write bf16", "--precision"))


def refuse_options(options: Options) -> None:
    """Say which fields to set instead of the options that were given.

    Raises:
        UserError: Some were.
    """
    given = [name for name, value in vars(options).items() if value is not None]
    if given:
        raise UserError(
            *(
                Mistake(f"the run file decides this: write {FIELDS[name]}=... instead", f"--{name.replace('_', '-')}")
                for name in given
            )
        )


def model_source(target: str, overrides: Sequence[str], options: Options) -> Source:
    """How the process that traces makes the workload of a model.

    Raises:
        UserError: With every mistake.
    """
    mistakes = [
        Mistake(f"{word!r} sets a field of a run file, but {target} is none: use the options", "command line")
        for word in overrides
    ]
    mistakes += [
        Mistake(f"{value} is not known: write one of {', '.join(known)}", option)
        for option, value, known in (
            ("--precision", options.precision, PRECISIONS),
            ("--checkpointing", options.checkpointing, CHECKPOINTINGS),
            ("--optimizer", options.optimizer, OPTIMIZERS),
        )
        if value is not None and value not in known
    ]
    if mistakes:
        raise UserError(*mistakes)
    changes: dict[str, Any] = {
        "precision": options.precision or "bf16",
        "checkpointing": options.checkpointing or "none",
        "accumulation": options.accumulation or 1,
    }
    if options.optimizer is not None:
        changes["optimizer"] = options.optimizer
    arguments = {
        "target": target,
        "micro_batch": options.micro_batch or 1,
        "image_size": options.image_size or 224,
        "sequence": options.sequence,
    }
    return Source("stoker.plan.workload:load_workload", arguments, changes)
