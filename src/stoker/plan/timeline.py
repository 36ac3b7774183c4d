"""What happens when, in a planned step: memory by what holds it, and the streams of a GPU. Data for charts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from stoker.plan.allocator import CachingAllocator, Options
from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import MemoryPlan, category_of, with_workspaces
from stoker.plan.simulate import Span
from stoker.plan.trace.log import Phase, Trace
from stoker.plan.trace.run import stages_to_trace

STACKED = ("parameters", "gradients", "optimizer", "activations", "temporaries", "collectives")
"""Categories of memory in use, from the bottom of the stack."""

POINTS = 480
SPANS = 500
"""Most moments and spans of a chart: those of one stretch are drawn as one."""


@dataclass(frozen=True)
class Moment:
    """Memory after one allocation or release.

    Attributes:
        at: Its number among all of the trace.
        held: Bytes asked for and in use, for each of `STACKED`.
        allocated: Bytes in use as the allocator rounds them: what decides which moment is the peak.
        reserved: Bytes that the allocator has reserved; on a CPU those in use.
    """

    at: int
    held: tuple[int, ...]
    allocated: int
    reserved: int

    @property
    def total(self) -> int:
        """Bytes asked for and in use."""
        return sum(self.held)


@dataclass(frozen=True)
class Begin:
    """Where a phase of a step begins, as a number among all allocations and releases."""

    step: int
    phase: Phase
    at: int


@dataclass(frozen=True)
class MemoryTimeline:
    """Memory over the traced steps.

    Attributes:
        moments: Those at which most was in use of each stretch.
        phases: Where each phase of each step begins.
        highest: The moment at which most was in use, of each step and phase.
        end: Number of allocations and releases until the last step ended.
    """

    moments: tuple[Moment, ...]
    phases: tuple[Begin, ...]
    highest: Mapping[tuple[int, Phase], Moment]
    end: int

    @property
    def peak(self) -> Moment:
        """The moment at which most was in use."""
        return _highest(self.moments)

    def to_json(self) -> list[dict[str, Any]]:
        """The moments of `highest`: steps are counted from 1, as for people."""
        return [
            {
                "step": step + 1,
                "phase": phase,
                "in_use": moment.total,
                "reserved": moment.reserved,
                **dict(zip(STACKED, moment.held, strict=True)),
            }
            for (step, phase), moment in self.highest.items()
        ]


def timeline_of(
    plan: MemoryPlan, traces: Sequence[Trace], layout: Layout, gpu: Gpu, options: Options | None = None
) -> MemoryTimeline | None:
    """Memory over time of the stage that a plan is of; None where it is a closed-form estimate.

    Args:
        plan: The plan.
        traces: Of the stages of `stages_to_trace`; none for an estimate.
        layout: How ranks are arranged.
        gpu: The planned GPU.
        options: Options of the caching allocator.
    """
    if not traces:
        return None
    return memory_timeline(traces[stages_to_trace(layout).index(plan.stage)], gpu, options)


def memory_timeline(traced: Trace, gpu: Gpu, options: Options | None = None) -> MemoryTimeline:
    """Memory of a trace as the caching allocator of a GPU, or malloc on a CPU, sees it.

    What a trace releases after its last step is left out: a training goes on there.

    Args:
        traced: The trace.
        gpu: The planned GPU.
        options: Options of the caching allocator.
    """
    before = 0 if gpu.on_cpu else 1  # the workspace of cuBLAS
    marks = [Begin(step, phase, at + before) for step, phase, at in traced.marks]
    end = len(traced.memory) + before
    if len(marks) > 1 and marks[-1].phase == "setup":
        end = marks.pop().at
    moments = list(islice(_moments(traced, gpu, options or Options()), end))
    stretch = max(1, -(-len(moments) // POINTS))
    kept = [_highest(moments[start : start + stretch]) for start in range(0, len(moments), stretch)]
    return MemoryTimeline(tuple(kept), tuple(marks), _highest_of_phases(moments, marks), len(moments))


def _highest_of_phases(moments: Sequence[Moment], marks: Sequence[Begin]) -> dict[tuple[int, Phase], Moment]:
    found: dict[tuple[int, Phase], Moment] = {}
    for mark, until in pairwise([*marks, Begin(0, "setup", len(moments))]):
        own = moments[mark.at if found else 0 : until.at]
        if own:
            known = found.get((mark.step, mark.phase))
            found[mark.step, mark.phase] = _highest([*([known] if known else []), _highest(own)])
    return found


def _highest(moments: Sequence[Moment]) -> Moment:
    return max(moments, key=lambda moment: moment.allocated)


def _moments(traced: Trace, gpu: Gpu, options: Options) -> Iterator[Moment]:
    allocator = None if gpu.on_cpu else CachingAllocator(None, options)
    places = {name: place for place, name in enumerate(STACKED)}
    held = [0] * len(STACKED)
    live: dict[int, tuple[int, int]] = {}
    requests = traced.memory if allocator is None else with_workspaces(traced.memory, gpu)
    for at, (key, nbytes, stream) in enumerate(requests):
        if nbytes:
            place = places[category_of(traced.tensors[key]) if key > 0 else "temporaries"]
            live[key] = place, nbytes
            held[place] += nbytes
        else:
            place, freed = live.pop(key)
            held[place] -= freed
        if allocator is None:
            yield Moment(at, tuple(held), sum(held), sum(held))
            continue
        if nbytes:
            allocator.malloc(key, nbytes, stream, at)
        else:
            allocator.free(key)
        yield Moment(at, tuple(held), allocator.allocated, allocator.reserved)


def merged(spans: Sequence[Span], most: int = SPANS) -> list[Span]:
    """The same with neighbours on a row drawn as one, until there are at most `most`.

    First those of one module and phase, then those of one phase, then also over ever larger gaps; spans of different
    rows or phases never become one. Each knows how long it is idle, so that what is busy stays what it was.
    """
    found = sorted(spans, key=lambda span: (span.row, span.start))
    whole = max((span.end for span in spans), default=0.0) - min((span.start for span in spans), default=0.0)
    gap, by_module = whole / 2000, True
    while True:
        joined = list(_join(found, gap, by_module=by_module))
        if len(joined) <= most or gap > whole:
            return joined
        gap, by_module = (gap, False) if by_module else (2 * gap, False)


def _join(spans: Sequence[Span], gap: float, *, by_module: bool) -> Iterator[Span]:
    current: Span | None = None
    for span in spans:
        alike = (
            current is not None
            and (current.row, current.phase) == (span.row, span.phase)
            and (not by_module or current.name == span.name)
            and span.start - current.end <= gap
        )
        if current is not None and alike:
            name = current.name if current.name == span.name else current.phase
            idle = current.idle + span.idle + max(0.0, span.start - current.end)
            current = current._replace(end=span.end, name=name, idle=idle)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current
