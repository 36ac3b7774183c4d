"""How throughput grows with the number of GPUs: the same layout with fewer and more data-parallel ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.speed import Conditions, Range, plan_speed
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import Source, trace_all

FACTORS = (0.25, 0.5, 1, 2, 4)
"""Of the data-parallel ranks that were asked for."""
MOST = 4096
"""GPUs."""


@dataclass(frozen=True)
class Size:
    """A number of GPUs.

    Attributes:
        gpus: GPUs.
        layout: How they are arranged.
        samples_per_second: Of all of them.
        efficiency: Samples per second and GPU over those of the smallest size.
        traced: Whether the step was traced for this size; otherwise only its collectives are of this size.
    """

    gpus: int
    layout: str
    samples_per_second: Range
    efficiency: float
    traced: bool

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self)


def scaling_curve(
    source: Source,
    traces: Sequence[Trace],
    layout: Layout,
    gpu: Gpu,
    conditions: Conditions | None = None,
    *,
    tell: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> list[Size]:
    """Plan other numbers of GPUs, each with the micro-batch and the accumulation that were asked for.

    With DDP one trace serves all sizes, for only the number of ranks in its collectives changes. Shards and what is
    gathered of them change with the number of ranks, so FSDP2 is traced for every size.

    Args:
        source: How to make the workload.
        traces: Of the layout that was asked for.
        layout: The layout that was asked for.
        gpu: The GPU.
        conditions: Network, data and storage.
        tell: Called after each trace with what is done, how many, and of how many; from another thread.

    Returns:
        From few GPUs to many. A size that cannot be traced is left out.
    """
    sizes = layouts(layout)
    if layout.is_ddp:
        found = {one: [t.with_ranks(layout.replicate, one.replicate) for t in traces] for one in sizes}
    else:
        others = [one for one in sizes if one != layout]
        count = iter(range(1, len(others) + 1))
        told = functools.partial(tell, "sizes")
        replies = trace_all([(source, one) for one in others], gpu, done=lambda: told(next(count), len(others)))
        found = {layout: list(traces)}
        found |= {one: reply.traces for one, reply in zip(others, replies, strict=True) if reply.failure is None}
    plans = {one: plan_speed(found[one], one, gpu, conditions) for one in sizes if one in found}
    least = next(iter(plans))
    base = plans[least].samples_per_second.expected / least.ranks
    return [
        Size(
            gpus=one.ranks,
            layout=str(one),
            samples_per_second=plan.samples_per_second,
            efficiency=plan.samples_per_second.expected / one.ranks / base,
            traced=one == layout or not layout.is_ddp,
        )
        for one, plan in plans.items()
    ]


def layouts(layout: Layout) -> list[Layout]:
    """The layout with fewer and more data-parallel ranks, from few to many; itself alone where it has no others."""
    field = "replicate" if layout.replicate > 1 else "shard"
    degree = getattr(layout, field)
    if degree == 1:
        return [layout]
    wanted = sorted({int(degree * factor) for factor in FACTORS if degree * factor >= 2})
    found = [replace(layout, **{field: one}) for one in wanted]
    return [one for one in found if one.ranks <= max(MOST, layout.ranks)]
