"""How throughput grows with the number of GPUs: the same layout with fewer and more data-parallel ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import Verdict, judge
from stoker.plan.speed import Conditions, Range, SpeedPlan, plan_speed
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import Source, trace_all, traced_layout

HALVINGS, DOUBLINGS = 3, 2
"""Of the data-parallel ranks that were asked for; more of them where less would not reach one node."""
TRACED = 5
"""Most numbers of GPUs where each needs a trace."""
MOST = 4096
"""GPUs."""


@dataclass(frozen=True)
class Size:
    """A number of GPUs.

    Attributes:
        gpus: GPUs.
        layout: How they are arranged.
        verdict: Whether the step fits.
        step_seconds: Time of a step.
        samples_per_second: Of all of them.
        efficiency: Samples per second and GPU over those of the size that is compared with.
        traced: Whether this very size was traced; otherwise it is the trace of two copies of the model, with its
            collectives over this number of ranks.
    """

    gpus: int
    layout: str
    verdict: Verdict
    step_seconds: Range
    samples_per_second: Range
    efficiency: Range
    traced: bool


@dataclass(frozen=True)
class Scaling:
    """Sizes from few GPUs to many.

    Attributes:
        sizes: The same layout with other numbers of data-parallel ranks; none where it cannot be said.
        base: GPUs that efficiencies compare with: the fewest that the step fits on, else the fewest.
        left_out: Sizes that are missing, and why.
        assumptions: Of all sizes together.
    """

    sizes: tuple[Size, ...]
    base: int
    left_out: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {**asdict(self), "sizes": [asdict(size) for size in self.sizes]}


def scaling_curve(
    source: Source,
    traces: Sequence[Trace],
    layout: Layout,
    gpu: Gpu,
    conditions: Conditions | None = None,
    *,
    tell: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> Scaling:
    """Plan other numbers of GPUs, each with the micro-batch and the accumulation that were asked for.

    With whole copies of the model one trace serves all sizes, for only the number of ranks in its collectives
    changes. Shards and what is gathered of them change with the number of ranks: every such size is traced.

    Args:
        source: How to make the workload.
        traces: Of the layout that was asked for.
        layout: The layout that was asked for.
        gpu: The GPU.
        conditions: Network, data and storage.
        tell: Called after each trace with what is done, how many, and of how many; from another thread.
    """
    given = conditions or Conditions()
    if gpu.on_cpu:
        return Scaling((), layout.ranks, ("the processes of a CPU share it: other numbers of them are not planned",))
    sizes = layouts(layout, given.gpus_per_node)
    own = traced_layout(layout)
    wanted = [one for one in dict.fromkeys(map(traced_layout, sizes)) if one != own]
    count = iter(range(1, len(wanted) + 1))
    replies = trace_all([(source, one) for one in wanted], gpu, done=lambda: tell("sizes", next(count), len(wanted)))
    found = {own: _over(traces, layout, own)}
    found |= {one: reply.traces for one, reply in zip(wanted, replies, strict=True) if reply.failure is None}
    plans: dict[Layout, tuple[SpeedPlan, Verdict]] = {}
    for one in sizes:
        if traced_layout(one) in found:
            of_size = _over(found[traced_layout(one)], traced_layout(one), one)
            plans[one] = plan_speed(of_size, one, gpu, given), _verdict(of_size, one, gpu, given)
    why = {one: reply.failure.message for one, reply in zip(wanted, replies, strict=True) if reply.failure is not None}
    left_out = [f"{one.ranks} GPUs, {one}: {why[traced_layout(one)]}" for one in sizes if one not in plans]
    return _compared(plans, tuple(left_out))


def layouts(layout: Layout, node: int = 8) -> list[Layout]:
    """The layout with fewer and more data-parallel ranks, from few to many: from a node of so many GPUs or less.

    Where each size needs a trace there are at most `TRACED` of them, the fewest GPUs among them.
    """
    field, least = ("replicate", 1) if layout.shard == 1 or layout.replicate > 1 else ("shard", 2)
    degree: int = getattr(layout, field)
    others = layout.ranks // degree
    halved = ((n, degree >> n) for n in range(degree.bit_length() - 1, 0, -1))
    fewer = [one for n, one in halved if one >= least and (n <= HALVINGS or one * others >= node)]
    largest = min(MOST, max(layout.ranks << DOUBLINGS, node))
    more = [degree << n for n in range(1, MOST.bit_length()) if layout.ranks << n <= largest]
    found = [replace(layout, **{field: one}) for one in (*fewer, degree, *more)]
    surplus = len(set(map(traced_layout, found))) - TRACED
    return found if surplus <= 0 else _without(found, surplus, len(fewer))


def _without(sizes: Sequence[Layout], surplus: int, fewer: int) -> list[Layout]:
    """The same without so many of the first `fewer` ones: those that are left lie evenly among them."""
    left = max(0, fewer - surplus)
    kept = {place * fewer // left for place in range(left)}
    return [one for place, one in enumerate(sizes) if place >= fewer or place in kept]


def _over(traces: Sequence[Trace], made: Layout, wanted: Layout) -> list[Trace]:
    """Traces of one number of whole copies as those of another."""
    if made == wanted:
        return list(traces)
    return [one.with_ranks(made.replicate, wanted.replicate) for one in traces]


def _verdict(traces: Sequence[Trace], layout: Layout, gpu: Gpu, given: Conditions) -> Verdict:
    held = [judge(one, gpu, layout, compiled=given.compiled) for one in traces]
    return max(held, key=lambda plan: plan.device_bytes).verdict


def _compared(plans: Mapping[Layout, tuple[SpeedPlan, Verdict]], left_out: tuple[str, ...]) -> Scaling:
    base = next((one for one, (_, verdict) in plans.items() if verdict != "does not fit"), next(iter(plans)))
    sizes = [
        Size(
            gpus=one.ranks,
            layout=str(one),
            verdict=verdict,
            step_seconds=plan.step_seconds,
            samples_per_second=plan.samples_per_second,
            efficiency=_efficiency(plan, one, plans[base][0], base),
            traced=traced_layout(one) == one,
        )
        for one, (plan, verdict) in plans.items()
    ]
    said = dict.fromkeys(line for plan, _ in plans.values() for line in plan.assumptions)
    return Scaling(tuple(sizes), base.ranks, left_out, tuple(said))


def _efficiency(plan: SpeedPlan, layout: Layout, base: SpeedPlan, on: Layout) -> Range:
    """Each end of the range compared with the same end: both rest on the same assumptions."""

    def share(rate: float, other: float) -> float:
        return rate / layout.ranks / (other / on.ranks)

    mine, others = plan.samples_per_second, base.samples_per_second
    expected = share(mine.expected, others.expected)
    ends = share(mine.low, others.low), share(mine.high, others.high), expected
    return Range(expected, min(ends), max(ends))
