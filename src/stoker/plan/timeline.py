"""What happens when, in a planned step: memory by what holds it, and the streams of a GPU. Data for charts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stoker.plan.allocator import CachingAllocator, Options
from stoker.plan.hardware import Gpu
from stoker.plan.memory import category_of, with_workspaces
from stoker.plan.simulate import Span
from stoker.plan.trace.log import Phase, Trace

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
        reserved: Bytes that the allocator has reserved; on a CPU those in use.
    """

    at: int
    held: tuple[int, ...]
    reserved: int

    @property
    def total(self) -> int:
        """Bytes in use."""
        return sum(self.held)


@dataclass(frozen=True)
class MemoryTimeline:
    """Memory over the traced steps.

    Attributes:
        moments: Those at which most was in use of each stretch.
        phases: Where each phase of each step begins, and its name.
        end: Number of allocations and releases in all.
    """

    moments: tuple[Moment, ...]
    phases: tuple[tuple[int, Phase], ...]
    end: int

    @property
    def peak(self) -> Moment:
        """The moment at which most was in use."""
        return max(self.moments, key=lambda moment: moment.total)


def memory_timeline(traced: Trace, gpu: Gpu, options: Options | None = None) -> MemoryTimeline:
    """Memory of a trace as the caching allocator of a GPU, or malloc on a CPU, sees it.

    Args:
        traced: The trace.
        gpu: The planned GPU.
        options: Options of the caching allocator.
    """
    before = 0 if gpu.on_cpu else 1  # the workspace of cuBLAS
    moments = list(_moments(traced, gpu, options or Options()))
    stretch = -(-len(moments) // POINTS)
    kept = [
        max(moments[start : start + stretch], key=lambda moment: moment.total)
        for start in range(0, len(moments), stretch)
    ]
    phases: tuple[tuple[int, Phase], ...] = tuple((at + before, phase) for _, phase, at in traced.marks)
    return MemoryTimeline(tuple(kept), phases, len(moments))


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
            yield Moment(at, tuple(held), sum(held))
            continue
        if nbytes:
            allocator.malloc(key, nbytes, stream, at)
        else:
            allocator.free(key)
        yield Moment(at, tuple(held), allocator.reserved)


def merged(spans: Sequence[Span], most: int = SPANS) -> list[Span]:
    """The same with neighbours on a row drawn as one, until there are at most `most`.

    First those of one module and phase, then those of one phase, then also over ever larger gaps; spans of different
    rows or phases never become one.
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
            current = current._replace(end=span.end, name=name)
            continue
        if current is not None:
            yield current
        current = span
    if current is not None:
        yield current
