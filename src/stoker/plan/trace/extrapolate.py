"""Makes the trace of a deep model out of two shallow ones, exactly.

A model that repeats a block does the same for every block: what it allocates, runs and sends is a sequence
in which one piece repeats, once per block, in each pass over the blocks. Two traces whose depths differ by
one show these pieces: aligned to each other, the deeper one has one more of each. The trace of any greater
depth has as many more as blocks are missing.

What an entry refers to (the allocation that a release ends, the event that a wait waits for) lies at a
position that is linear in the depth, and so is every number that counts over all blocks, such as the bytes
that one operator over all parameters moves. Where two traces cannot be aligned, `MisalignedError` says so
and the deep model must be traced itself.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from stoker.plan.layout import Layout
from stoker.plan.trace.log import Collective, Cost, Event, Memory, Op, Sync, Tensor, Trace, foreach_kernels
from stoker.plan.workload import Workload

SHALLOW = 4
"""The lesser depth to trace: the first and the last block may differ, and two alike must lie between them."""

TRIES = 3
"""Pairs of depths to try: with what is fetched ahead for the next block, more blocks are unlike the others."""

GAIN = 0.8
"""Share of the blocks above which a shallow trace is no gain."""

_WINDOWS = (12, 6, 3, 1)
"""Entries that must agree again after a difference: as many as possible, tried in this order."""

_NOTHING = -1


class MisalignedError(Exception):
    """Two traces do not differ by repeated pieces alone."""


class Item(NamedTuple):
    """One entry of a log, with its meaning split from its numbers.

    Attributes:
        label: What must be the same in every copy.
        numbers: What may grow with the depth, linearly.
        module: Index of the module.
        key: What it defines or refers to: a tensor or an event; -1 for nothing.
    """

    label: tuple[Any, ...]
    numbers: tuple[float, ...]
    module: int
    key: int


class Region(NamedTuple):
    """A piece that the deeper log has once more: `size` entries from `deep` on; `shallow` is where they lack."""

    shallow: int
    deep: int
    size: int


@dataclass
class Log:
    """A sequence of entries and, for each, the position at which its key was first mentioned."""

    items: list[Item]

    def __post_init__(self) -> None:
        first: dict[int, int] = {}
        self.origin = [first.setdefault(item.key, at) if item.key != _NOTHING else at
                       for at, item in enumerate(self.items)]  # fmt: skip


class Made(NamedTuple):
    """An entry of the deep log: where it comes from, its numbers, module and key."""

    source: int
    numbers: tuple[float, ...]
    module: int
    key: int


def extrapolate(shallow: Trace, deep: Trace, depths: tuple[int, int], wanted: int) -> Trace:
    """The trace at a depth, from the traces at two lesser depths.

    Args:
        shallow: Trace with the first number of blocks.
        deep: Trace with more.
        depths: Both numbers; they differ by the blocks after which the model repeats itself, mostly one.
        wanted: Blocks of the trace to make, a multiple of the difference above the second number.

    Raises:
        MisalignedError: If the two differ by more than a repeated piece.
    """
    extra, rest = divmod(wanted - depths[1], depths[1] - depths[0])
    if extra < 0 or rest:
        raise MisalignedError(f"cannot go from depths {depths} to {wanted}")
    memory = [Log(memory_items(one)) for one in (shallow, deep)]
    events = [Log(event_items(one)) for one in (shallow, deep)]
    made = deep.empty_copy()
    made.modules = _modules(shallow.modules, deep.modules, extra)
    requests = _repeat(memory[0], memory[1], extra)
    _fill_memory(made, deep, requests)
    played = _repeat(events[0], events[1], extra)
    made.events = [remade(deep.events[one.source], one) for one in played]
    made.marks = [
        (step, phase, after + extra * (after - before))
        for (_, _, before), (step, phase, after) in zip(shallow.marks, deep.marks, strict=True)
    ]
    made.ends = _ends(shallow, deep, events, played, extra)
    made.parameters = deep.parameters + extra * (deep.parameters - shallow.parameters)
    made.parameter_bytes = deep.parameter_bytes + extra * (deep.parameter_bytes - shallow.parameter_bytes)
    made.seconds = shallow.seconds + deep.seconds
    made.traced_depth = depths[1]
    return made


def from_shallow(trace_at: Callable[[int], Trace], wanted: int, period: int = 1) -> Trace | None:
    """The trace of a deep model, from as few shallow ones as it takes; None if it must be traced itself.

    Args:
        trace_at: Traces the model with a number of blocks.
        wanted: Blocks of the model; 0 if that is not known.
        period: Blocks after which the model repeats itself.
    """
    shallow = SHALLOW + (wanted - SHALLOW) % period
    before: Trace | None = None
    for depth in range(shallow, shallow + TRIES * period + 1, period):
        if depth > wanted * GAIN:
            return None
        deep = trace_at(depth)
        if before is not None:
            with contextlib.suppress(MisalignedError):
                return extrapolate(before, deep, (depth - period, depth), wanted)
        before = deep
    return None


def blocks_of_stage(workload: Workload, layout: Layout, stage: int) -> int:
    """Blocks in each chunk of a pipeline stage; 0 where it is not known or the chunks differ."""
    if workload.build_at is None:
        return 0
    pieces = layout.pipeline * layout.interleave
    chunks = [stage + number * layout.pipeline for number in range(layout.interleave)]
    counts = {workload.depth * (k + 1) // pieces - workload.depth * k // pieces for k in chunks}
    return counts.pop() if len(counts) == 1 else 0


# ------------------------------------------------------------------------------------- entries


def memory_items(trace: Trace) -> list[Item]:
    """Allocations and releases."""
    items: list[Item] = []
    for request in trace.memory:
        tensor = trace.tensors[request.tensor]
        label = (request.nbytes > 0, tensor.phase, tensor.step, tensor.role, tensor.freed, request.stream)
        items.append(Item(label, (tensor.nbytes,), tensor.module, request.tensor))
    return items


def event_items(trace: Trace) -> list[Item]:
    """Operators, collectives and dependencies."""
    return [_event_item(event) for event in trace.events]


def _event_item(event: Event) -> Item:
    if isinstance(event, Op):
        work = event.cost
        label = (event.name, work.kind, work.dtype, event.stream, event.phase, event.step, len(work.shape))
        numbers = (work.flops, work.read, work.written, work.kernels, *work.shape)
        return Item(label, numbers, event.module, _NOTHING)
    if isinstance(event, Collective):
        label = (event.op, event.ranks, event.stride, event.stream, event.phase, event.step)
        return Item(label, (event.nbytes,), 0, event.event or _NOTHING)
    return Item((event.kind, event.stream), (), 0, event.event)


def remade(source: Event, made: Made) -> Event:
    """An entry with other numbers, module and key."""
    if isinstance(source, Op):
        flops, read, written, kernels, *shape = made.numbers
        sizes = tuple(int(size) for size in shape)
        launches = foreach_kernels(sizes) if source.cost.kind == "foreach" else int(kernels)
        work = Cost(source.cost.kind, flops, read, written, source.cost.dtype, launches, sizes)
        return source._replace(cost=work, module=made.module)
    if isinstance(source, Collective):
        return source._replace(nbytes=int(made.numbers[0]), event=max(made.key, 0))
    return Sync(source.kind, source.stream, made.key)


def _fill_memory(made: Trace, deep: Trace, requests: Sequence[Made]) -> None:
    for one in requests:
        source = deep.memory[one.source]
        nbytes = int(one.numbers[0])
        if source.nbytes:
            tensor = replace(deep.tensors[source.tensor], nbytes=nbytes, module=one.module)
            made.tensors.append(tensor)
        elif one.key >= len(made.tensors) or made.tensors[one.key].nbytes != nbytes:
            raise MisalignedError("a release does not meet its allocation")
        made.memory.append(Memory(one.key, nbytes if source.nbytes else 0, source.stream))


def _modules(shallow: Sequence[str], deep: Sequence[str], extra: int) -> list[str]:
    """Names of the modules: after each run of blocks that only the deeper model has come those that are made."""
    known, names = set(shallow), list[str]()
    for new, run in itertools.groupby(deep, lambda name: name not in known):
        own = list(run)
        names += own
        if new:
            first = re.fullmatch(r"(.*?)(\d+)", own[0])
            if first is None:
                raise MisalignedError(f"{own[0]} is not a numbered block")
            start = int(first[2]) + len(own)
            names += [f"{first[1]}{start + more}" for more in range(extra * len(own))]
    return names


def _ends(
    shallow: Trace, deep: Trace, logs: Sequence[Log], played: Sequence[Made], extra: int
) -> list[tuple[int, str, int]]:
    places = [{item.key: log.origin[at] for at, item in enumerate(log.items)} for log in logs]
    found: list[tuple[int, str, int]] = []
    for (_, _, before), (step, name, after) in zip(shallow.ends, deep.ends, strict=True):
        place = places[1][after] + extra * (places[1][after] - places[0][before])
        found.append((step, name, played[place].key))
    return found


# ---------------------------------------------------------------------------------- repetition


def _repeat(shallow: Log, deep: Log, extra: int) -> list[Made]:
    """The deep log with `extra` more copies of every repeated piece."""
    made: list[Made] = []
    keys = 0
    for at, before, previous, copy in _entries(align(shallow, deep), len(deep.items), extra):
        item, old, near = deep.items[at], shallow.items[before], deep.items[previous]

        def linear(now: float, old: float, near: float, copy: int = copy) -> float:
            return now + extra * (near - old) + copy * (now - near)

        numbers = tuple(map(linear, item.numbers, old.numbers, near.numbers))
        module = int(linear(item.module, old.module, near.module))
        key = _NOTHING
        if item.key != _NOTHING and deep.origin[at] == at:
            keys += 1
            key = keys
        elif item.key != _NOTHING:
            place = int(linear(deep.origin[at], shallow.origin[before], deep.origin[previous]))
            if not 0 <= place < len(made):
                raise MisalignedError("an entry refers to what comes after it")
            key = made[place].key
        made.append(Made(at, numbers, module, key))
    return made


def _entries(regions: Sequence[Region], length: int, extra: int) -> Iterator[tuple[int, int, int, int]]:
    """Position in the deep log, its counterpart one piece earlier in the shallow and deep log, number of the copy.

    Outside the repeated pieces the counterpart is the entry itself and the number is 0.
    """
    at, shift = 0, 0
    for region in (*regions, Region(length - sum(r.size for r in regions), length, 0)):
        yield from ((n, n - shift, n, 0) for n in range(at, region.deep))
        for copy in range(extra + 1):
            for n in range(region.deep, region.deep + region.size):
                yield n, n - region.size - shift, n - region.size, copy
        at, shift = region.deep + region.size, shift + region.size


def align(shallow: Log, deep: Log) -> list[Region]:
    """Where the deeper log has one more copy of what stands before it.

    Raises:
        MisalignedError: If anything else differs.
    """
    names: dict[Any, int] = {}
    exact = [[names.setdefault((i.label, i.numbers), len(names)) for i in log.items] for log in (shallow, deep)]
    loose = [[names.setdefault(i.label, len(names)) for i in log.items] for log in (shallow, deep)]
    return _Aligner(exact[0], exact[1], loose[0], loose[1], deep.origin).run()


class _Aligner:
    """Walks along both logs; `exact` entries agree in all but references, `loose` ones but for numbers."""

    def __init__(
        self,
        shallow: list[int],
        deep: list[int],
        shallow_loose: list[int],
        deep_loose: list[int],
        origin: list[int],
    ) -> None:
        self.shallow, self.deep, self.origin = shallow, deep, origin
        self.shallow_loose, self.deep_loose = shallow_loose, deep_loose

    def run(self) -> list[Region]:
        regions: list[Region] = []
        a = b = floor = 0  # nothing before `floor`, in the shallow log, may become part of a piece
        while a < len(self.shallow) or b < len(self.deep):
            if a < len(self.shallow) and b < len(self.deep) and self.shallow[a] == self.deep[b]:
                a, b = a + 1, b + 1
                continue
            grows, size = self._difference(a, b, floor)
            if grows:
                a, b, floor = a + 1, b + 1, a + 1
            else:
                back = self._back(a, b, size, floor)
                regions.append(Region(a - back, b - back, size))
                b, floor = b + size, a
        return regions

    def _difference(self, a: int, b: int, floor: int) -> tuple[bool, int]:
        """Whether one number grows with the depth here, or else the length of the piece that was put in.

        Where pieces lie close together, only little of what follows is the same.
        """
        of_a_kind = self.shallow_loose[a : a + 1] == self.deep_loose[b : b + 1]
        for window in _WINDOWS:
            if of_a_kind and self._resumes(a + 1, b + 1, window):
                return True, 0
            size = self._piece(a, b, floor, window)
            if size:
                return False, size
        if of_a_kind:
            return True, 0
        raise MisalignedError(f"entries {a} and {b} differ")

    def _resumes(self, a: int, b: int, window: int) -> bool:
        left = self.shallow[a : a + window]
        return bool(left) and left == self.deep[b : b + window]

    def _piece(self, a: int, b: int, floor: int, window: int) -> int:
        """Length of the piece that stands once more in the deep log at `b`; 0 if there is none."""
        deep = self.deep
        ahead = self.shallow_loose[a : a + window]
        for size in range(1, min(a - floor, len(deep) - b) + 1):
            if deep[b] != deep[b - size] or deep[b + size - 1] != deep[b - 1]:
                continue
            if self.deep_loose[b + size : b + size + window] != ahead:
                continue
            if deep[b - size : b] == deep[b : b + size]:
                return size
        return 0

    def _back(self, a: int, b: int, size: int, floor: int) -> int:
        """How far back the piece is begun: where references move as regularly as they can, and near the middle.

        It could begin anywhere from the first to the last place at which the logs agree, but the first and the
        last block differ in what they refer to: they must not become the piece.
        """
        reach = 0
        while a - reach > floor and self.shallow[a - reach - 1] == self.deep[b + size - reach - 1]:
            reach += 1
        most = max(0, reach - size)
        odd = [0]  # irregular references, counted from the earliest possible start on
        for at in range(b - most, b + size):
            odd.append(odd[-1] + (not self._regular(at, size, b - reach, b + size)))
        starts = range(most + 1)
        return most - min(starts, key=lambda start: (odd[start + size] - odd[start], abs(start - most // 2)))

    def _regular(self, at: int, size: int, first: int, last: int) -> bool:
        """Whether a reference lies as far from that of the piece before as one of its neighbours does."""
        origin = self.origin
        moved = origin[at] - origin[at - size]
        before = at - 2 * size >= first and origin[at - size] - origin[at - 2 * size] == moved
        return before or (at + size < last and origin[at + size] - origin[at] == moved)


def same(first: Trace, second: Trace) -> bool:
    """Whether two traces are equal but for the numbers of tensors and events."""
    return _canonical(first) == _canonical(second)


def _canonical(trace: Trace) -> tuple[Any, ...]:
    tensors: dict[int, int] = {}
    memory = [(tensors.setdefault(m.tensor, len(tensors)), m.nbytes, m.stream) for m in trace.memory]
    names: dict[int, int] = {0: 0}
    events: list[Any] = []
    for event in trace.events:
        if isinstance(event, Op):
            events.append(event)
        else:
            events.append(event._replace(event=names.setdefault(event.event, len(names))))
    held: list[Tensor] = [trace.tensors[key] for key in tensors]
    ends = [(step, name, names[event]) for step, name, event in trace.ends]
    return memory, events, held, ends, trace.marks, trace.modules, trace.parameters, trace.parameter_bytes
