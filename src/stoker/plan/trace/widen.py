"""Makes the trace of a deep model with a large micro-batch out of three cheaper ones.

Between two micro-batches a log keeps its entries and changes their numbers. Which numbers become which is seen
where both were traced, at a lesser depth: the entries of the deeper log are the same ones, only more of them.
Where two entries look alike at the one micro-batch and differ at the other, their neighbours tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stoker.plan.trace.extrapolate import Item, Made, MisalignedError, event_items, memory_items, remade
from stoker.plan.trace.log import Sync, Trace

_REACHES = ((0, 0), (1, 1), (2, 2), (4, 4), (2, 0), (0, 2), (4, 0), (0, 4))
"""Neighbours before and after to look at, tried in this order: those of one side may be of another block."""

_FIXED = ("setup", "optimizer")
"""Phases in which nothing depends on the micro-batch."""


def widen(small: Trace, wide: Trace, deep: Trace) -> Trace:
    """The trace with the depth of `deep` and the micro-batch of `wide`.

    Args:
        small: Trace with the lesser depth and the lesser micro-batch.
        wide: The same with the larger micro-batch.
        deep: The same as the first with the larger depth.

    Raises:
        MisalignedError: An entry of the deep trace has no counterpart, or several that differ.
    """
    made = replace(deep, facts=wide.facts, seconds=small.seconds + wide.seconds + deep.seconds)
    fixed = [deep.tensors[request.tensor].phase in _FIXED for request in deep.memory]
    sizes = _widened(memory_items(small), memory_items(wide), memory_items(deep), fixed)
    made.tensors, made.memory = list(deep.tensors), []
    for request, (nbytes,) in zip(deep.memory, sizes, strict=True):
        if request.nbytes:
            made.tensors[request.tensor] = replace(deep.tensors[request.tensor], nbytes=int(nbytes))
        made.memory.append(request._replace(nbytes=int(nbytes) if request.nbytes else 0))
    fixed = [not isinstance(event, Sync) and event.phase in _FIXED for event in deep.events]
    items = event_items(deep)
    numbers = _widened(event_items(small), event_items(wide), items, fixed)
    made.events = [
        remade(event, Made(at, own, item.module, item.key))
        for at, (event, item, own) in enumerate(zip(deep.events, items, numbers, strict=True))
    ]
    return made


def _widened(
    small: Sequence[Item], wide: Sequence[Item], deep: Sequence[Item], fixed: Sequence[bool]
) -> list[tuple[float, ...]]:
    """Numbers of the deep entries at the larger micro-batch; those that are fixed need no counterpart."""
    if [item.label for item in small] != [item.label for item in wide]:
        raise MisalignedError("the micro-batch decides what runs")
    names: dict[object, int] = {}
    looks = [[names.setdefault((item.label, item.numbers), len(names)) for item in items] for items in (small, deep)]
    known = set(looks[0])
    found = {at: deep[at].numbers for at, look in enumerate(looks[1]) if fixed[at] and look not in known}
    for reach in _REACHES:
        if len(found) == len(deep):
            break
        table: dict[tuple[int, ...], tuple[float, ...] | None] = {}
        for at, item in enumerate(wide):
            near = _near(looks[0], at, *reach)
            if table.setdefault(near, item.numbers) != item.numbers:
                table[near] = None
        for at in range(len(deep)):
            numbers = None if at in found else table.get(_near(looks[1], at, *reach))
            if numbers is not None:
                found[at] = numbers
    if len(found) != len(deep):
        raise MisalignedError(f"{len(deep) - len(found)} entries look like none, or several, of the lesser depth")
    return [found[at] for at in range(len(deep))]


def _near(looks: Sequence[int], at: int, before: int, after: int) -> tuple[int, ...]:
    return tuple(looks[max(0, at - before) : at + after + 1])
