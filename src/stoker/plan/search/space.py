"""What a search tries: servers, layouts, micro-batches. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.workload import Checkpointing, Precision, format_of


@dataclass(frozen=True)
class Servers:
    """Servers of one kind.

    Attributes:
        gpu: Their GPUs.
        count: How many servers.
        gpus_per_server: GPUs in each.
        network: Link between them, by name.
        price: Of one GPU for an hour, in any currency; None if unknown.
    """

    gpu: Gpu
    count: int = 1
    gpus_per_server: int = 8
    network: str = "ib-400"
    price: float | None = None

    @property
    def gpus(self) -> int:
        """GPUs of all."""
        return self.count * self.gpus_per_server

    def __str__(self) -> str:
        each = f"{self.gpus_per_server} x {self.gpu.name}"
        return each if self.count == 1 else f"{self.count} servers of {each}"


@dataclass(frozen=True)
class Shape:
    """How each rank works.

    Attributes:
        checkpointing: Which activations are computed again.
        micro_batch: Samples per forward pass.
        accumulation: Micro-batches per step.
        precision: Number format.
    """

    checkpointing: Checkpointing
    micro_batch: int
    accumulation: int
    precision: Precision


@dataclass(frozen=True)
class Cuts:
    """How a model may be cut.

    Attributes:
        tensor: Numbers of ranks over which its matrices may be cut; 1 among them.
        stages: Most stages of a pipeline.
    """

    tensor: tuple[int, ...] = (1,)
    stages: int = 1


def layouts(gpus: int, per_server: int, cuts: Cuts) -> list[Layout]:
    """Every sensible layout of so many GPUs.

    Tensor parallel groups stay inside a server, for they talk on the critical path, and fill it before a
    pipeline is added to them, which talks least. What both leave over holds copies (DDP), shards (FSDP2, with
    and without freeing gathered weights), or copies of shards, one per server (HSDP).
    """
    found: dict[Layout, None] = {}
    for tensor in cuts.tensor:
        if tensor > per_server or gpus % tensor:
            continue
        for stages in _powers(min(cuts.stages, gpus // tensor)):
            if gpus % (tensor * stages) or (stages > 1 and 1 < tensor < per_server):
                continue
            for layout in _spread(gpus // (tensor * stages), tensor, stages, per_server):
                found[layout] = None
    return list(found)


def _spread(rest: int, tensor: int, stages: int, per_server: int) -> Iterator[Layout]:
    yield Layout(replicate=rest, tensor=tensor, pipeline=stages)
    if rest == 1:
        return
    yield Layout(shard=rest, tensor=tensor, pipeline=stages)
    if stages == tensor == 1:  # a pipeline never frees gathered weights between its micro-batches
        yield Layout(shard=rest, tensor=tensor, reshard=False)
    inside = per_server // tensor
    if 1 < inside < rest and rest % inside == 0:
        yield Layout(replicate=rest // inside, shard=inside, tensor=tensor, pipeline=stages)


def _powers(most: int) -> Iterator[int]:
    value = 1
    while value <= most:
        yield value
        value *= 2


def shapes(layout: Layout, global_batch: int) -> list[tuple[int, int]]:
    """Micro-batch and accumulation for a global batch, largest micro-batch first; none if ranks would be idle.

    >>> shapes(Layout(replicate=8), 64)
    [(8, 1), (4, 2), (2, 4), (1, 8)]
    """
    if global_batch < layout.data_ranks:
        return []
    share = -(-global_batch // layout.data_ranks)
    found: dict[int, int] = {}
    for parts in _powers(share):
        micro = -(-share // parts)
        accumulation = -(-share // micro)
        if layout.pipeline == 1 or accumulation >= layout.pipeline:  # fewer would leave stages empty
            found.setdefault(micro, accumulation)
    return list(found.items())


def state_bytes(layout: Layout, parameters: int, states: float, width: int) -> float:
    """Bytes that a rank holds at least: weights, gradients and optimizer state of its part.

    Rajbhandari et al. 2020 (arXiv 1910.02054), section 3, for the stage that sharding over everything gives.

    Args:
        layout: How ranks are arranged.
        parameters: Of the whole model.
        states: Values that the optimizer keeps per parameter.
        width: Bytes of a weight.
    """
    return parameters * width * (2 + states) / (layout.shard * layout.tensor * layout.pipeline)


def fewest_seconds(flops: float, gpu: Gpu, gpus: int, precision: Precision) -> float:
    """Time that arithmetic takes at least: at the best that matrix products are known to reach on this GPU."""
    peak = gpu.flops.get(format_of(precision), gpu.flops["float32"])
    best = 1.0 if precision == "fp32" else gpu.reached("gemm").high
    return flops / (gpus * peak * best)
