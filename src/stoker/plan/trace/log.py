"""What a trace holds: plain data, written by the process that traces and read by everything else.

No torch here: reading a trace, replaying its memory and pricing its operators need none.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

Phase = Literal["setup", "input", "forward", "backward", "optimizer"]

Kind = Literal[
    "gemm",
    "conv",
    "grouped_conv",
    "depthwise_conv",
    "attention",
    "attention_backward",
    "rnn",
    "norm",
    "elementwise",
    "reduction",
    "gather",
    "copy",
    "fill",
    "foreach",
    "other",
]

Role = Literal["parameter", "gradient", "optimizer", "buffer", "input", "gathered", ""]


class Cost(NamedTuple):
    """What the kernels of one operator have to do.

    Attributes:
        kind: What bounds it.
        flops: Floating point operations; a multiply-add counts two.
        read: Bytes read at least, each input once (twice where the algorithm needs two passes).
        written: Bytes written.
        dtype: Type the arithmetic runs in, such as `float32`.
        kernels: Kernels it launches.
        shape: (m, n, k, batch) of the matrix product it amounts to; for `foreach` the chunks, tensors and lists
            that `foreach_kernels` counts; empty for others.
    """

    kind: Kind
    flops: float
    read: float
    written: float
    dtype: str
    kernels: int
    shape: tuple[int, ...]


class Op(NamedTuple):
    """One operator that runs kernels.

    Attributes:
        name: Overload packet, such as `aten.mm`.
        cost: What it has to do.
        stream: Stream it was put on; 0 is the default one.
        phase: Part of the step.
        step: Step of the trace, from 0.
        module: Index in `Trace.modules`.
    """

    name: str
    cost: Cost
    stream: int
    phase: Phase
    step: int
    module: int


def foreach_kernels(shape: tuple[int, ...]) -> int:
    """Launches of an operator over lists of tensors: (chunks of 65,536 elements, tensors, lists).

    A launch takes at most 320 chunks, and as many tensors as fit its argument, the fewer the more lists it
    works on (aten/src/ATen/native/cuda/MultiTensorApply.cuh).
    """
    chunks, tensors, lists = shape
    most = (110, 64, 48, 36, 30)[min(max(lists, 1), 5) - 1]
    return max(1, math.ceil(chunks / 320), math.ceil(tensors / most))


class Collective(NamedTuple):
    """One collective operation.

    Attributes:
        op: `all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `send` or `recv`.
        nbytes: Bytes of the whole, not of the shard: what nccl-tests calls the size.
        ranks: Ranks that take part.
        stride: Distance between neighbours in the group, in global ranks; 1 for ranks side by side.
        stream: Stream it runs on; negative for the communicator's own stream.
        event: Event that is recorded when it ends; 0 for none.
        phase: Part of the step.
        step: Step of the trace, from 0.
    """

    op: str
    nbytes: int
    ranks: int
    stride: int
    stream: int
    event: int
    phase: Phase
    step: int


class Sync(NamedTuple):
    """A point on a stream: `record` marks it with an event, `wait` holds the stream until the event."""

    kind: Literal["record", "wait"]
    stream: int
    event: int


class Memory(NamedTuple):
    """One allocation (`nbytes` > 0) or release (`nbytes` = 0) of a storage.

    Attributes:
        tensor: Index in `Trace.tensors`.
        nbytes: Bytes asked for; 0 for a release.
        stream: Stream that was current.
    """

    tensor: int
    nbytes: int
    stream: int


@dataclass(slots=True)
class Tensor:
    """One storage.

    Attributes:
        nbytes: Bytes asked for.
        phase: Part of the step in which it was allocated.
        step: Step in which it was allocated.
        module: Index in `Trace.modules`.
        stream: Stream it was allocated on.
        role: What it serves as, where that is known; empty for what an operator returned.
        freed: Phase and step in which it was released; None if it was not.
    """

    nbytes: int
    phase: Phase
    step: int
    module: int
    stream: int
    role: Role = ""
    freed: tuple[Phase, int] | None = None


Event = Op | Collective | Sync


@dataclass(frozen=True)
class Facts:
    """What is needed of the workload to read its trace.

    Attributes:
        name: Of the workload.
        samples_unit: What a sample is called.
        micro_batch: Samples per forward pass.
        accumulation: Micro-batches per step.
        traced_micro_batches: Those of them in the trace.
        tokens_per_sample: None where a sample is no sequence.
        precision: As in the workload.
        optimizer: As in the workload.
        hidden_bytes: Bytes between two stages of a pipeline.
        notes: What the workload assumes.
    """

    name: str = ""
    samples_unit: str = "samples"
    micro_batch: int = 1
    accumulation: int = 1
    traced_micro_batches: int = 1
    tokens_per_sample: int | None = None
    precision: str = "fp32"
    optimizer: str = "adamw"
    hidden_bytes: int = 0
    notes: tuple[str, ...] = ()


@dataclass
class Trace:
    """Everything that happened in the traced steps of one rank.

    Attributes:
        device: `cuda` or `cpu`: whose allocations these are.
        steps: Steps traced.
        events: Operators, collectives and stream synchronisation in order.
        memory: Allocations and releases in order.
        tensors: The storages; index 0 is unused.
        modules: Qualified names of modules; index 0 is the model itself.
        marks: Position in `memory` where each (step, phase) began.
        ends: Step, name and event of each part that ended: micro-batches, pipeline slots, the step.
        parameters: Parameters of the whole model, before sharding.
        parameter_bytes: Bytes of parameters that this rank holds.
        resident: Bytes that the tracing process held before the model: Python, torch, the task and its data;
            0 where a GPU is traced.
        notes: What could not be traced as it is, and what was assumed instead.
        seconds: How long tracing took.
        facts: What is needed of the workload to read it.
        traced_depth: Repeated blocks of the deepest model that was really traced, where the trace was made out of
            two shallower ones; 0 for a trace of the model itself.
    """

    device: str
    steps: int
    events: list[Event] = field(default_factory=list[Event])
    memory: list[Memory] = field(default_factory=list[Memory])
    tensors: list[Tensor] = field(default_factory=lambda: [Tensor(0, "setup", 0, 0, 0)])
    modules: list[str] = field(default_factory=lambda: [""])
    marks: list[tuple[int, Phase, int]] = field(default_factory=list[tuple[int, Phase, int]])
    ends: list[tuple[int, str, int]] = field(default_factory=list[tuple[int, str, int]])
    parameters: int = 0
    parameter_bytes: int = 0
    resident: int = 0
    notes: list[str] = field(default_factory=list[str])
    seconds: float = 0.0
    facts: Facts = field(default_factory=Facts)
    traced_depth: int = 0

    def empty_copy(self) -> Trace:
        """The same run with nothing written down yet."""
        return Trace(device=self.device, steps=self.steps, notes=list(self.notes), facts=self.facts)

    def with_ranks(self, traced: int, wanted: int) -> Trace:
        """The same with collectives over another number of ranks."""
        events = [
            event._replace(ranks=wanted) if isinstance(event, Collective) and event.ranks == traced else event
            for event in self.events
        ]
        return replace(self, events=events)

    def with_accumulation(self, micro_batches: int) -> Trace:
        """The same step with another number of micro-batches: those after the traced ones repeat them."""
        return replace(self, facts=replace(self.facts, accumulation=micro_batches))

    def sort_releases(self) -> None:
        """Put releases with no allocation between them in the order of their allocations.

        Their order is that of a hash table where autocast drops its copies of the weights, and does not matter
        to the allocator: neighbours join whichever comes first.
        """
        start: int | None = None
        for at, request in enumerate([*self.memory, Memory(0, 1, 0)]):
            if request.nbytes == 0 and start is None:
                start = at
            elif request.nbytes and start is not None:
                self.memory[start:at] = sorted(self.memory[start:at])
                start = None

    def ops(self, step: int = -1) -> Iterator[Op]:
        """Operators of one step, the last one by default."""
        wanted = step % self.steps
        return (event for event in self.events if isinstance(event, Op) and event.step == wanted)

    def collectives(self, step: int = -1) -> Iterator[Collective]:
        """Collectives of one step, the last one by default."""
        wanted = step % self.steps
        return (event for event in self.events if isinstance(event, Collective) and event.step == wanted)

    def flops(self, step: int = -1) -> float:
        """Floating point operations of one step on this rank."""
        return sum(op.cost.flops for op in self.ops(step))

    def states(self) -> float:
        """Values that the optimizer keeps per parameter: 2 for Adam, 1 for SGD with momentum."""
        held = sum(tensor.nbytes for tensor in self.tensors if tensor.role == "optimizer")
        return held / self.parameter_bytes if self.parameter_bytes else 0.0

    def save(self, path: Path) -> None:
        """Write to a file that only this program, in this version, reads."""
        with path.open("wb") as file:
            pickle.dump(self, file, protocol=pickle.HIGHEST_PROTOCOL)

    @staticmethod
    def load(path: Path) -> Trace:
        """Read what `save` wrote."""
        with path.open("rb") as file:
            return pickle.load(file)
