"""Plays a trace in time: streams run in order, wait for each other, and the host feeds them one by one.

The overlap of communication with computation is not a formula here: DDP's buckets, FSDP2's prefetching
and the waits of tensor parallelism are in the trace as records and waits of events, and are played as a
GPU would.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from stoker.plan.collectives import Network, seconds
from stoker.plan.hardware import overhead
from stoker.plan.roofline import Roofline
from stoker.plan.trace.log import Collective, Op, Phase, Sync, Trace

_COLLECTIVE_LAUNCH = 15e-6
"""Host seconds per collective call (assumption: several operators' worth)."""


@dataclass
class Timeline:
    """What came of playing a trace; all in seconds.

    Attributes:
        ends: When each part of the trace ended, by step and name.
        compute: Kernel time in the last step.
        communication: Collective time in the last step.
        host: Time that the host needed to launch the last step.
        by_kind: Kernel time in the last step by kind of operator.
    """

    ends: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    compute: float = 0.0
    communication: float = 0.0
    host: float = 0.0
    by_kind: dict[str, float] = field(default_factory=dict[str, float])

    def step_seconds(self, last: int) -> float:
        """Duration of the last step: from the end of the one before to its own."""
        return self.ends[last, "step"] - self.ends.get((last - 1, "step"), 0.0)


class Span(NamedTuple):
    """Something that occupies a stream or the wire, in the last step.

    Attributes:
        row: What it occupies: `compute`, `stream N` for another stream, or `communication`.
        start: Seconds from the beginning of the trace; so is `end`.
        phase: Part of the step.
        name: Module of an operator, or name of a collective.
        group: Ranks of a collective, and the distance between neighbours; None for an operator.
        idle: Seconds of it in which nothing ran, where it stands for several with gaps between them.
    """

    row: str
    start: float
    end: float
    phase: Phase
    name: str
    group: tuple[int, int] | None = None
    idle: float = 0.0

    @property
    def busy(self) -> float:
        """Seconds of it in which something ran."""
        return self.end - self.start - self.idle


def play(
    trace: Trace,
    roofline: Roofline,
    network: Network,
    *,
    scale: Callable[[Op], float] | None = None,
    peer_to_peer: bool = False,
    watch: Callable[[Span], None] | None = None,
) -> Timeline:
    """Play a trace on one GPU.

    Args:
        trace: The trace.
        roofline: Prices operators.
        network: Prices collectives.
        scale: Factor on the time of an operator, for what a trace cannot see.
        peer_to_peer: Whether sends and receives take time; in a pipeline the schedule counts them.
        watch: Is told every span of the last step.
    """
    timeline = Timeline()
    streams: dict[int, float] = {}
    events: dict[int, float] = {}
    host = wire = 0.0
    last = trace.steps - 1
    names = {event: (step, name) for step, name, event in trace.ends}
    for event in trace.events:
        if isinstance(event, Op):
            launch = roofline.launch_seconds(event)
            took = roofline.seconds(event) * (scale(event) if scale else 1.0)
            host += launch
            end = streams[event.stream] = max(streams.get(event.stream, 0.0), host) + took
            if event.step == last:
                if watch is not None:
                    row = f"stream {event.stream}" if event.stream else "compute"
                    watch(Span(row, end - took, end, event.phase, trace.modules[event.module]))
                timeline.compute += took
                timeline.host += launch
                kind = event.cost.kind
                timeline.by_kind[kind] = timeline.by_kind.get(kind, 0.0) + took
        elif isinstance(event, Collective):
            if event.op in ("send", "recv") and not peer_to_peer:
                continue
            took = seconds(event.op, event.nbytes, event.ranks, event.stride, network)
            host += _COLLECTIVE_LAUNCH
            # one wire: collectives of different groups take turns
            wire = max(wire, streams.get(event.stream, 0.0), host) + took
            streams[event.stream] = wire
            if event.step == last:
                if watch is not None:
                    group = event.ranks, event.stride
                    watch(Span("communication", wire - took, wire, event.phase, event.op, group))
                timeline.communication += took
        else:
            _synchronise(event, streams, events)
            if event.event in names:
                timeline.ends[names[event.event]] = max(streams.get(0, 0.0), host)
    return timeline


def _synchronise(event: Sync, streams: dict[int, float], events: dict[int, float]) -> None:
    if event.kind == "record":
        events[event.event] = streams.get(event.stream, 0.0)
    else:
        streams[event.stream] = max(streams.get(event.stream, 0.0), events.get(event.event, 0.0))


def slowdown(timeline: Timeline, step: float, ranks: int) -> float:
    """Factor on a step for what ranks do to each other.

    Kernels slow down while collectives hold multiprocessors, and all wait for the slowest of N ranks, which
    lies sqrt(2 ln N) standard deviations above the mean.
    """
    if ranks == 1 or step <= 0:
        return 1.0
    overlapped = min(timeline.communication, timeline.compute)
    shared = overhead("comm_slowdown") * overlapped / step
    return 1.0 + shared + overhead("straggler") * math.sqrt(2 * math.log(ranks))
