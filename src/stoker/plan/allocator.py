"""A model of the CUDA caching allocator of PyTorch: how much memory a sequence of allocations reserves.

What is asked for and what is reserved differ: requests are rounded, blocks are cut from segments, segments
belong to one stream and one size class, and what is cut in the wrong place cannot be used again. The rules
are those of c10/cuda/CUDACachingAllocator.cpp (native backend) and its documented environment options.
Pure Python, no torch.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

KIB = 1 << 10
MIB = 1 << 20

MIN_BLOCK = 512
SMALL_SIZE = 1 * MIB
SMALL_SEGMENT = 2 * MIB
LARGE_SEGMENT = 20 * MIB
MIN_LARGE = 10 * MIB
ROUND_LARGE = 2 * MIB


class OutOfMemoryError(Exception):
    """The allocations do not fit in the capacity, even after cached memory was given back.

    Attributes:
        position: Index of the allocation that failed.
        requested: Bytes it asked for.
        reserved: Bytes reserved when it failed.
        allocated: Bytes in use when it failed.
    """

    def __init__(self, position: int, requested: int, reserved: int, allocated: int) -> None:
        super().__init__(f"allocation {position} of {requested} bytes does not fit")
        self.position = position
        self.requested = requested
        self.reserved = reserved
        self.allocated = allocated


@dataclass(frozen=True)
class Options:
    """What PYTORCH_CUDA_ALLOC_CONF can say, with its defaults.

    Attributes:
        expandable_segments: One segment per stream and size class that grows page by page.
        max_split_size: Blocks above this many bytes are never cut; None for no limit.
        roundup_power2_divisions: Round requests up to one of this many steps between powers of two; 0 is off.
    """

    expandable_segments: bool = False
    max_split_size: int | None = None
    roundup_power2_divisions: int = 0


class Request(NamedTuple):
    """An allocation (`nbytes` > 0) or a release (`nbytes` = 0) of the memory called `key`."""

    key: int
    nbytes: int
    stream: int = 0


@dataclass(slots=True, eq=False)
class _Segment:
    number: int
    size: int
    pool: tuple[int, bool]


@dataclass(slots=True, eq=False)
class _Block:
    segment: _Segment
    offset: int
    size: int
    free: bool = False
    previous: _Block | None = None
    next: _Block | None = None


class _Pool:
    """Free blocks of one stream and size class, in the order in which the allocator looks at them."""

    __slots__ = ("blocks", "keys")

    def __init__(self) -> None:
        self.keys: list[tuple[int, int, int]] = []
        self.blocks: list[_Block] = []

    def add(self, block: _Block) -> None:
        key = (block.size, block.segment.number, block.offset)
        place = bisect.bisect_left(self.keys, key)
        self.keys.insert(place, key)
        self.blocks.insert(place, block)

    def remove(self, block: _Block) -> None:
        place = bisect.bisect_left(self.keys, (block.size, block.segment.number, block.offset))
        del self.keys[place], self.blocks[place]

    def smallest_at_least(self, size: int) -> _Block | None:
        place = bisect.bisect_left(self.keys, (size, -1, -1))
        return self.blocks[place] if place < len(self.blocks) else None


@dataclass
class Usage:
    """What a replay came to, in bytes.

    Attributes:
        peak_reserved: Most that was reserved from the device.
        peak_allocated: Most that was in use, after rounding.
        peak_position: Index of the request at which most was in use.
        peak_requested: Bytes asked for (before rounding) that were in use at that moment.
        released_and_retried: Times that cached memory had to be given back to go on.
    """

    peak_reserved: int = 0
    peak_allocated: int = 0
    peak_position: int = 0
    peak_requested: int = 0
    released_and_retried: int = 0


@dataclass
class CachingAllocator:
    """Allocates and frees as PyTorch does, and counts.

    Args:
        capacity: Bytes that can be reserved; None for no limit.
        options: Allocator options.
    """

    capacity: int | None = None
    options: Options = field(default_factory=Options)

    def __post_init__(self) -> None:
        self.reserved = 0
        self.allocated = 0
        self.requested = 0
        self.usage = Usage()
        self._pools: dict[tuple[int, bool], _Pool] = {}
        self._blocks: dict[int, tuple[_Block, int]] = {}
        self._tails: dict[tuple[int, bool], _Block] = {}
        self._segments = 0

    def malloc(self, key: int, nbytes: int, stream: int = 0, position: int = 0) -> None:
        """Allocate `nbytes` under the name `key`.

        Raises:
            OutOfMemoryError: If it does not fit in the capacity.
        """
        size = self.round(nbytes)
        pool_key = (stream, size <= SMALL_SIZE)
        pool = self._pools.setdefault(pool_key, _Pool())
        block = self._find(pool, size)
        if block is not None:
            pool.remove(block)
        else:
            block = self._new_block(pool_key, size, position)
        self._split(pool, block, size)
        block.free = False
        self._blocks[key] = (block, nbytes)
        self.allocated += block.size
        self.requested += nbytes
        if self.allocated > self.usage.peak_allocated:
            self.usage.peak_allocated = self.allocated
            self.usage.peak_requested = self.requested
            self.usage.peak_position = position

    def free(self, key: int) -> None:
        """Return the memory called `key` to its pool, joined with its free neighbours."""
        block, nbytes = self._blocks.pop(key)
        self.allocated -= block.size
        self.requested -= nbytes
        pool = self._pools[block.segment.pool]
        after, before = block.next, block.previous
        if after is not None and after.free:
            pool.remove(after)
            self._join(block, after)
        if before is not None and before.free:
            pool.remove(before)
            self._join(before, block)
            block = before
        block.free = True
        pool.add(block)

    def round(self, nbytes: int) -> int:
        """Size of the block that a request for `nbytes` takes."""
        divisions = self.options.roundup_power2_divisions
        if divisions > 1 and nbytes > MIN_BLOCK * divisions:
            step = (1 << (nbytes.bit_length() - 1)) // divisions
            return math.ceil(nbytes / step) * step
        return max(MIN_BLOCK, math.ceil(nbytes / MIN_BLOCK) * MIN_BLOCK)

    def release_cached(self) -> int:
        """Give every segment that is wholly free back to the device; returns the bytes given back."""
        given = 0
        for pool_key, pool in self._pools.items():
            for block in list(pool.blocks):
                if self.options.expandable_segments:
                    given += self._shrink(pool_key, pool, block)
                elif block.previous is None and block.next is None:
                    pool.remove(block)
                    given += block.segment.size
        self.reserved -= given
        return given

    # ------------------------------------------------------------------------------------------

    def _find(self, pool: _Pool, size: int) -> _Block | None:
        block = pool.smallest_at_least(size)
        limit = self.options.max_split_size
        if block is None or limit is None:
            return block
        if size < limit <= block.size:
            return None  # a block that may not be cut is kept for large requests
        if size >= limit and block.size >= size + LARGE_SEGMENT:
            return None  # too wasteful: it could not be cut
        return block

    def _new_block(self, pool_key: tuple[int, bool], size: int, position: int) -> _Block:
        if self.options.expandable_segments:
            return self._expand(pool_key, size, position)
        segment_size = _segment_size(size)
        self._reserve(segment_size, position, size)
        self._segments += 1
        return _Block(_Segment(self._segments, segment_size, pool_key), 0, segment_size)

    def _reserve(self, more: int, position: int, requested: int) -> None:
        if self.capacity is not None and self.reserved + more > self.capacity:
            self.release_cached()
            self.usage.released_and_retried += 1
            if self.reserved + more > self.capacity:
                raise OutOfMemoryError(position, requested, self.reserved, self.allocated)
        self.reserved += more
        self.usage.peak_reserved = max(self.usage.peak_reserved, self.reserved)

    def _expand(self, pool_key: tuple[int, bool], size: int, position: int) -> _Block:
        """Map pages at the end of the one segment of this pool, using its free tail first."""
        page = SMALL_SEGMENT if pool_key[1] else LARGE_SEGMENT
        tail = self._tails.get(pool_key)
        spare = tail.size if tail is not None and tail.free else 0
        more = math.ceil((size - spare) / page) * page
        before = self.usage.released_and_retried
        self._reserve(more, position, size)
        if self.usage.released_and_retried != before:  # the tail may have been given back meanwhile
            self.reserved -= more
            tail = self._tails.get(pool_key)
            spare = tail.size if tail is not None and tail.free else 0
            more = math.ceil((size - spare) / page) * page
            self._reserve(more, position, size)
        if tail is None:
            self._segments += 1
            block = _Block(_Segment(self._segments, more, pool_key), 0, more)
        elif tail.free:
            self._pools[pool_key].remove(tail)
            tail.size += more
            block = tail
        else:
            block = _Block(tail.segment, tail.offset + tail.size, more, previous=tail)
            tail.next = block
        self._tails[pool_key] = block
        return block

    def _shrink(self, pool_key: tuple[int, bool], pool: _Pool, block: _Block) -> int:
        """Unmap the whole pages at the free end of an expandable segment."""
        if self._tails.get(pool_key) is not block:
            return 0  # pages in the middle are unmapped too, but their addresses stay: not modelled
        page = SMALL_SEGMENT if pool_key[1] else LARGE_SEGMENT
        given = block.size // page * page
        if not given:
            return 0
        pool.remove(block)
        block.size -= given
        if block.size:
            pool.add(block)
        elif block.previous is not None:
            block.previous.next = None
            self._tails[pool_key] = block.previous
        else:
            del self._tails[pool_key]
        return given

    def _split(self, pool: _Pool, block: _Block, size: int) -> None:
        remaining = block.size - size
        if not self._may_split(block, remaining):
            return
        rest = _Block(block.segment, block.offset + size, remaining, True, block, block.next)
        if block.next is not None:
            block.next.previous = rest
        block.next = rest
        block.size = size
        if self._tails.get(block.segment.pool) is block:
            self._tails[block.segment.pool] = rest
        pool.add(rest)

    def _may_split(self, block: _Block, remaining: int) -> bool:
        if block.segment.pool[1] or self.options.expandable_segments:
            return remaining >= MIN_BLOCK
        limit = self.options.max_split_size
        return remaining > SMALL_SIZE and (limit is None or block.size - remaining < limit)

    def _join(self, first: _Block, second: _Block) -> None:
        first.size += second.size
        first.next = second.next
        if second.next is not None:
            second.next.previous = first
        if self._tails.get(first.segment.pool) is second:
            self._tails[first.segment.pool] = first


def _segment_size(size: int) -> int:
    if size <= SMALL_SIZE:
        return SMALL_SEGMENT
    if size < MIN_LARGE:
        return LARGE_SEGMENT
    return math.ceil(size / ROUND_LARGE) * ROUND_LARGE


def replay(
    requests: Iterable[Request] | Sequence[tuple[int, int, int]],
    *,
    capacity: int | None = None,
    options: Options | None = None,
) -> Usage:
    """Run a sequence of allocations and releases through the allocator.

    >>> replay([Request(1, 3 * MIB), Request(1, 0), Request(2, 2 * MIB)]).peak_reserved // MIB
    20

    Raises:
        OutOfMemoryError: If it does not fit in `capacity` bytes.
    """
    allocator = CachingAllocator(capacity, options or Options())
    for position, (key, nbytes, stream) in enumerate(requests):
        if nbytes:
            allocator.malloc(key, nbytes, stream, position)
        else:
            allocator.free(key)
    return allocator.usage


def add_up(requests: Sequence[tuple[int, int, int]]) -> Usage:
    """What a sequence comes to without a caching allocator: on the CPU every tensor is asked for and given back.

    >>> add_up([Request(1, 300), Request(2, 100), Request(1, 0), Request(3, 250)]).peak_requested
    400
    """
    sizes: dict[int, int] = {}
    total = peak = place = 0
    for position, (key, nbytes, _) in enumerate(requests):
        if not nbytes:
            total -= sizes.pop(key)
            continue
        sizes[key] = nbytes
        total += nbytes
        if total > peak:
            peak, place = total, position
    return Usage(peak_reserved=peak, peak_allocated=peak, peak_position=place, peak_requested=peak)
