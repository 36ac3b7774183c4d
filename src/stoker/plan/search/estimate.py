"""Memory and time of a layout in any depth and micro-batch, from traces of a few small ones.

Everything that a step allocates and computes grows with the number of equal layers and with the micro-batch
along straight lines, but for rounding: two depths and two micro-batches fix them. What is largest may change
with the depth, so each phase has lines of its own. Estimates choose what is traced in full; they are no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.plan.allocator import replay
from stoker.plan.hardware import GIB, Gpu, overhead
from stoker.plan.layout import Layout
from stoker.plan.memory import with_workspaces
from stoker.plan.roofline import Roofline
from stoker.plan.speed import Conditions, expected_seconds
from stoker.plan.trace.log import Trace
from stoker.plan.workload import Checkpointing

Corner = tuple[int, int]
"""Layers and micro-batch of a small trace; the layers are 0 where the depth is fixed."""


@dataclass(frozen=True)
class Sketch:
    """One layout with one kind of checkpointing, as far as its corners tell.

    Attributes:
        layout: How ranks are arranged.
        checkpointing: Which activations are computed again.
        corners: Traces of its stages, by depth and micro-batch.
        peaks: Most bytes of each corner by phase, and reserved.
    """

    layout: Layout
    checkpointing: Checkpointing
    corners: Mapping[Corner, Sequence[Trace]]
    peaks: Mapping[Corner, Mapping[str, float]]

    def device_bytes(self, layers: int, micro_batch: int) -> float:
        """What nvidia-smi would show, about."""
        names = {name for peaks in self.peaks.values() for name in peaks}
        lines = {name: {corner: peaks[name] for corner, peaks in self.peaks.items()} for name in names}
        held = max(between(line, layers, micro_batch) for line in lines.values())
        communicator = overhead("nccl_gib") if self.layout.ranks > 1 else 0.0
        return held + (overhead("context_gib") + communicator) * GIB

    def parameters(self, layers: int) -> float:
        """Of the whole model."""
        line = {corner: float(traces[0].parameters) for corner, traces in self.corners.items()}
        return between(line, layers, 1)

    def flops_per_sample(self, layers: int) -> float:
        """Of a layout whose ranks hold every layer and every column, for a sample of its own."""
        line = {corner: flops_per_sample(traces[0]) for corner, traces in self.corners.items()}
        return between(line, layers, 1)

    def seconds(
        self, layers: int, shapes: Sequence[tuple[int, int]], roofline: Roofline, conditions: Conditions
    ) -> list[float]:
        """Step time, about, of each micro-batch and number of them."""
        counts = [accumulation for _, accumulation in shapes]
        by_corner = {
            corner: expected_seconds(traces, self.layout, roofline, conditions, counts)
            for corner, traces in self.corners.items()
        }
        lines = [{corner: times[number] for corner, times in by_corner.items()} for number in range(len(shapes))]
        return [between(line, layers, micro) for line, (micro, _) in zip(lines, shapes, strict=True)]


def make_sketch(
    layout: Layout, corners: Mapping[Corner, Sequence[Trace]], checkpointing: Checkpointing, gpu: Gpu
) -> Sketch:
    """Replay the memory of each corner once: it depends on the GPU by its workspace only."""
    peaks = {corner: _peaks(traces, gpu) for corner, traces in corners.items()}
    return Sketch(layout, checkpointing, corners, peaks)


def flops_per_sample(trace: Trace) -> float:
    """Floating point operations that a trace does for each sample."""
    return trace.flops() / (trace.facts.micro_batch * trace.facts.traced_micro_batches)


def between(values: Mapping[Corner, float], layers: int, micro_batch: int) -> float:
    """The plane through the corners of a rectangle, with the twist that fits the fourth.

    An axis with one value is taken as flat.

    >>> between({(2, 1): 10.0, (3, 1): 12.0, (2, 2): 14.0, (3, 2): 17.0}, 4, 3)
    26.0
    """
    depths, sizes = sorted({d for d, _ in values}), sorted({m for _, m in values})
    along = [_line([(depth, values[depth, size]) for depth in depths], layers) for size in sizes]
    return _line(list(zip(sizes, along, strict=True)), micro_batch)


def _line(points: Sequence[tuple[float, float]], at: float) -> float:
    if len(points) == 1:
        return points[0][1]
    (x0, y0), (x1, y1) = points[0], points[-1]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def _peaks(traces: Sequence[Trace], gpu: Gpu) -> dict[str, float]:
    """Of the stage that needs most: most bytes in use in each phase, and most that is reserved."""
    found: dict[str, float] = {}
    for trace in traces:
        own = _phase_peaks(trace)
        own["reserved"] = float(replay(with_workspaces(trace.memory, gpu)).peak_reserved)
        for name, value in own.items():
            found[name] = max(value, found.get(name, 0.0))
    return found


def _phase_peaks(trace: Trace) -> dict[str, float]:
    starts = [(start, phase) for _, phase, start in trace.marks]
    sizes: dict[int, int] = {}
    peaks: dict[str, float] = {}
    total, mark = 0, 0
    for position, (key, nbytes, _) in enumerate(trace.memory):
        while mark + 1 < len(starts) and starts[mark + 1][0] <= position:
            mark += 1
        if nbytes:
            sizes[key] = nbytes
            total += nbytes
        else:
            total -= sizes.pop(key)
        phase = starts[mark][1] if starts else "setup"
        peaks[phase] = max(total, peaks.get(phase, 0.0))
    return peaks
