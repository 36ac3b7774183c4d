"""The fields of a RunSpec.

The docstring under each field is its only description: help, `--explain`, the JSON schema and the reference
page are made from it.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from stoker.train.spec.quantity import Duration, Interval, Quantity, Spacing, Warmup

OPTIMIZERS = (
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "asgd", "muon", "nadam", "radam", "rmsprop",
    "rprop", "sgd",
)  # fmt: skip
"""Optimizers of `torch.optim` that work on dense gradients without a closure; checked against torch by a test."""


def unknown_word(word: str, known: tuple[str, ...], what: str) -> str:
    """A sentence for a word that is none of `known`, with the nearest one."""
    near = get_close_matches(word.lower(), known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"write one of {', '.join(known)}"
    return f"unknown {what} {word!r}: {hint}"


def checkpoint_stride(setting: str) -> int:
    """Distance between checkpointed blocks: 0 for none, 1 for full, N for `every N`.

    Raises:
        ValueError: The setting is none of these.
    """
    words = setting.split()
    if setting in ("none", "full"):
        return int(setting == "full")
    if len(words) == 2 and words[0] == "every" and words[1].isdigit() and int(words[1]) > 0:
        return int(words[1])
    raise ValueError(f"{setting!r} is not understood: write 'none', 'full' or 'every 2'")


def _known_optimizer(name: str) -> str:
    if name not in OPTIMIZERS and ":" not in name:
        raise ValueError(unknown_word(name, OPTIMIZERS, "optimizer"))
    return name


def _known_checkpointing(setting: str) -> str:
    checkpoint_stride(setting)
    return setting


class Section(BaseModel):
    """A group of fields: unknown keys are mistakes, and nothing changes after reading."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=True,
        strict=True,
        allow_inf_nan=False,
    )


class TaskSection(Section):
    """What is trained."""

    use: str
    """A built-in task (`image-classification`), `module:Name`, or `path/to/file.py:Name`, where Name is a
    `Task` class or a function that returns one. A relative path starts at the folder of the run file."""
    options: dict[str, Any] = {}
    """Keyword arguments for Name. Paths in it are relative to the current folder."""


class BatchSection(Section):
    """How many samples make a step, and how they are cut to fit in memory."""

    global_size: int = Field(default=32, ge=1)
    """Samples per optimizer step over all ranks together, in samples. The result depends on this
    number alone, not on how it is divided."""
    micro_size: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """Samples per forward pass on one rank, in samples; gradients are accumulated until the global batch is
    complete. `auto`: a rank's whole share in one pass; set a number if that does not fit in memory."""

    @model_validator(mode="after")
    def _micro_fits_global(self) -> Self:
        if self.micro_size != "auto" and self.micro_size > self.global_size:
            raise ValueError(
                f"micro_size {self.micro_size} is larger than global_size {self.global_size}: "
                f"write at most {self.global_size}, or 'auto'"
            )
        return self


class DataSection(Section):
    """How samples are read."""

    workers: Literal["auto"] | Annotated[int, Field(ge=0)] = "auto"
    """Processes per rank that read samples. `auto`: none when training on the CPU or from tensors in memory,
    else as many as this rank's share of the cores, 8 at most. The order of samples does not depend on it."""
    prefetch: int = Field(default=2, ge=1)
    """Micro-batches that each worker reads ahead."""
    shuffle: bool = True
    """Visit the samples of each epoch in a new random order, a function of `seed`, epoch and position only."""
    last_batch: Literal["keep", "drop"] = "keep"
    """What becomes of an epoch's incomplete last batch: `keep` trains on it with its true weight."""


class OptimizerSection(Section):
    """The rule by which weights change."""

    name: Annotated[str, AfterValidator(_known_optimizer)] = "adamw"
    """Name of an optimizer of `torch.optim` in lower case (`sgd`, `adamw`, ...), or `module:Class` of your own."""
    lr: float = Field(default=1e-3, gt=0)
    """Peak learning rate, reached after the warm-up."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Decay of the weights per step, as the optimizer defines it."""
    decay_all: bool = False
    """Apply `weight_decay` to biases and to weights of fewer than two dimensions (norms) too."""
    implementation: Literal["auto", "fused", "foreach", "loop"] = "auto"
    """Which of torch's implementations runs: `auto` takes the fastest that optimizer and device have."""
    options: dict[str, Any] = {}
    """Further keyword arguments of the optimizer, such as `momentum` or `betas`."""


class ScheduleSection(Section):
    """How the learning rate moves over the run."""

    name: Literal["constant", "linear", "cosine", "step"] = "constant"
    """Shape after the warm-up: constant, a line or half a cosine down to `final`, or steps."""
    warmup: Warmup = Quantity(0, "steps")
    """Length of the linear rise from zero to the peak: steps, epochs, or percent of the run."""
    final: float = Field(default=0.0, ge=0, le=1)
    """Learning rate at the end as a fraction of the peak (linear and cosine)."""
    drop_every: Spacing = Quantity(30, "epochs")
    """Distance between the drops of `step`, in steps or epochs."""
    drop_factor: float = Field(default=0.1, gt=0, lt=1)
    """What the learning rate is multiplied with at each drop of `step`."""


class ParallelSection(Section):
    """How the work is spread over devices."""

    strategy: Literal["auto", "single", "dp", "ddp"] = "auto"
    """How the devices share the work. `auto`: ddp when there are several processes, else single. `ddp`: one
    process per device, each with the whole model. `single`: one device. `dp`: one process for several GPUs
    (slower; for notebooks)."""
    find_unused: bool = False
    """Search each step for parameters that got no gradient (ddp). Costs time; for models that skip parts."""


class MemorySection(Section):
    """What is given up to need less memory."""

    activation_checkpointing: Annotated[str, AfterValidator(_known_checkpointing)] = "none"
    """Keep only the inputs of repeated blocks and compute the rest again in the backward pass: `none`, `full`
    (all blocks), or `every N` (each Nth block). Same gradients, less memory, about a third more compute."""


class GradientSection(Section):
    """What happens to gradients before the optimizer sees them."""

    clip_norm: Annotated[float, Field(gt=0)] | None = None
    """Scale the gradients down to this global L2 norm when they exceed it. Empty: no clipping."""


class EvaluateSection(Section):
    """When and how the held-out data is measured."""

    every: Interval = Quantity(1, "epochs")
    """Distance between evaluations: epochs, steps, time, or never. The end of the run is always evaluated
    unless this is never."""
    batch_size: Literal["auto"] | Annotated[int, Field(ge=1)] = "auto"
    """Samples per evaluation batch. The same on any number of ranks, so results are too. `auto`: the
    micro-batch if it is a number, else the global batch, at most 64."""


class CheckpointSection(Section):
    """When the state is saved, and from where a run continues."""

    every: Interval = Quantity(1, "epochs")
    """Distance between checkpoints: epochs, steps, time, or never. One is also written when the run ends or
    is told to stop, unless this is never."""
    keep: int = Field(default=3, ge=1)
    """Newest checkpoints kept; older ones are deleted after a newer one is complete."""
    asynchronous: bool = True
    """Write in the background while training goes on. The state is copied to host memory first."""
    resume: str = "auto"
    """`auto`: continue from the newest complete checkpoint of the output folder, start anew if there is none;
    `never`: start anew and refuse a folder that holds checkpoints; or the path of one checkpoint."""


class ObserveSection(Section):
    """What the run tells while it goes."""

    progress: Literal["auto", "bar", "lines", "none"] = "auto"
    """Progress on the terminal: `auto` is a bar on a terminal and lines elsewhere."""
    lines_every: float = Field(default=10.0, gt=0)
    """Seconds between progress lines where there is no bar."""
    tensorboard: bool = True
    """Write TensorBoard event files into the run folder."""


def _task_shorthand(value: Any) -> Any:
    return {"use": value} if isinstance(value, str) else value


class RunSpec(Section):
    """What to train and how."""

    version: Literal[1] = 1
    """Version of this format."""
    task: Annotated[TaskSection, BeforeValidator(_task_shorthand)]
    """What is trained; a plain string is short for `task.use`."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """From which initial weights, order of samples and augmentation follow."""
    deterministic: bool = False
    """Only deterministic kernels: two runs on the same machine agree in every bit. May be slower."""
    duration: Duration
    """Length of the run: '20 epochs', '500 steps', '2 hours' or '3e9 tokens'."""
    batch: BatchSection = BatchSection()
    data: DataSection = DataSection()
    optimizer: OptimizerSection = OptimizerSection()
    schedule: ScheduleSection = ScheduleSection()
    precision: Literal["auto", "fp64", "fp32", "tf32", "bf16", "fp16"] = "auto"
    """Number format of the heavy operations; weights stay in fp32. `auto`: bf16 on GPUs that have it, fp16 on
    Volta and Turing, else fp32. `fp64` computes everything in float64, for proofs."""
    parallel: ParallelSection = ParallelSection()
    memory: MemorySection = MemorySection()
    gradient: GradientSection = GradientSection()
    evaluate: EvaluateSection = EvaluateSection()
    checkpoint: CheckpointSection = CheckpointSection()
    observe: ObserveSection = ObserveSection()
    output: str = "runs/run"
    """Run folder: metrics, checkpoints, model and report. Default: `runs/` and the name of the run file."""
