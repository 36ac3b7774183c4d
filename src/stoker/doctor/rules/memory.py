"""Out of memory: who holds it, and whether it is truly full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import astuple, dataclass

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

_UNITS = {"B": 1.0, "K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4}
_SIZE = r"([\d.]+) ?(bytes|[KMGT]?i?B)"
_CONTEXT_SHARE = 0.12
"""What CUDA context, libraries and NCCL buffers may take of a card besides the allocator."""
_CONTEXT_BYTES = 1.5 * 1024**3
_FRAGMENT_SHARE = 0.04
"""Cached but unused memory below this share of the card is the normal rest between blocks."""


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The figures of one message, in bytes; None where it does not say.

    Attributes:
        tried: What was asked for.
        capacity: The card's memory.
        free: What the driver had left.
        allocated: What tensors of this process held.
        idle: What this process's allocator held without using it.
        others: What other processes held, by the message itself.
        processes: How many processes the message names.
    """

    tried: float
    capacity: float | None
    free: float | None
    allocated: float | None
    idle: float | None
    others: float | None
    processes: int


def read_out_of_memory(text: str) -> OutOfMemory | None:
    """Read PyTorch's message in the wordings from 1.0 to 2.10.

    >>> text = "Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 6.00 GiB already allocated)"
    >>> read_out_of_memory(text).capacity / 2**30
    8.0
    """
    tried = _size(text, rf"Tried to allocate {_SIZE}")
    if tried is None:
        return None
    allocated = _size(text, rf"{_SIZE} already allocated", rf"{_SIZE} is allocated by PyTorch")
    idle = _size(text, rf"{_SIZE} is reserved by PyTorch but unallocated", rf"{_SIZE} cached")
    reserved = _size(text, rf"{_SIZE} reserved in total by PyTorch")
    if idle is None and reserved is not None and allocated is not None:
        idle = max(0.0, reserved - allocated)
    own = _size(text, rf"this process has {_SIZE} memory in use")
    named = [_bytes(number, unit) for number, unit in re.findall(rf"Process \d+ has {_SIZE} memory in use", text)]
    return OutOfMemory(
        tried=tried,
        capacity=_size(text, rf"{_SIZE} total capacity", rf"total capacity of {_SIZE}", rf"capacity of {_SIZE}"),
        free=_size(text, rf"{_SIZE} free", rf"of which {_SIZE} is free"),
        allocated=allocated,
        idle=idle,
        others=sum(named) if own is not None and named else None,
        processes=len(named) + (own is not None),
    )


def _size(text: str, *patterns: str) -> float | None:
    for pattern in patterns:
        found = re.search(pattern, text)
        if found:
            return _bytes(found[1], found[2])
    return None


def _bytes(number: str, unit: str) -> float:
    try:
        return float(number) * _UNITS["B" if unit == "bytes" else unit[0]]
    except ValueError:
        return 0.0


def judge_memory(facts: Facts) -> Iterator[Verdict]:
    """Sort an out-of-memory error by its own figures."""
    hits = facts.hits("oom")
    evaluation = facts.hits("evaluation_frame")
    for hit in _distinct(hits):
        figures = _read_broken(hit)
        yield from _judge_one(hit, figures)
    any_hit = hits or facts.hits("oom_bare")
    near = [frame for frame in evaluation if any(-60 <= hit.line - frame.line <= 60 for hit in any_hit)]
    if any_hit and near:
        yield verdict("validation-without-no-grad", 0.9, near, any_hit[:1])
    if not hits and any_hit:
        yield verdict("cuda-oom-model-too-big", 0.5, any_hit)


def _read_broken(hit: Hit) -> OutOfMemory | None:
    """The figures of a message, also where a terminal has broken it into lines: the reading that has most."""
    figures = [found for text in hit.readings() if (found := read_out_of_memory(text))]
    if not figures or (figures[0].capacity is not None and figures[0].allocated is not None):
        return figures[0] if figures else None
    return max(figures, key=lambda found: sum(value is not None for value in astuple(found)))


def _distinct(hits: list[Hit]) -> list[Hit]:
    """One per rank is enough; the first of each counts."""
    seen: dict[int | None, Hit] = {}
    for hit in hits:
        seen.setdefault(hit.origin.rank, hit)
    return list(seen.values())[:16]


def _judge_one(hit: Hit, figures: OutOfMemory | None) -> Iterator[Verdict]:
    if figures is None:
        return
    others = _held_by_others(figures)
    if others is not None and figures.capacity and others > 0.2 * figures.capacity:
        yield verdict("other-process-holds-gpu-memory", 0.9, [hit])
        if figures.processes > 2:
            yield verdict("all-ranks-open-context-on-gpu0", 0.55, [hit])
    fragmented = (
        figures.idle is not None
        and figures.idle >= figures.tried
        and figures.idle >= _FRAGMENT_SHARE * (figures.capacity or 0)
    )
    if fragmented:
        yield verdict("cuda-allocator-fragmentation", 0.88, [hit])
    yield verdict("cuda-oom-model-too-big", 0.75 if fragmented or figures.capacity is None else 0.85, [hit])


def _held_by_others(figures: OutOfMemory) -> float | None:
    """What neither this process nor the free rest explains."""
    if figures.others is not None:
        return figures.others
    if figures.capacity is None or figures.free is None or figures.allocated is None:
        return None
    if figures.processes == 1:
        return 0.0  # the one process named, by its number on the host, is the one that failed
    own = figures.allocated + (figures.idle or 0.0)
    rest = figures.capacity - figures.free - own
    return rest if rest > max(_CONTEXT_BYTES, _CONTEXT_SHARE * figures.capacity) else 0.0
