"""The last hour of each series in bounded memory: a ring of slots, each the mean of what fell into it."""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise

SPAN = 3600.0
"""Seconds that are kept."""
STEP = 10.0
"""Seconds of one slot."""
MAX_SERIES = 4096
"""More are not kept: 8 GPUs and a dozen runs have about 100, and 4,096 take 12 MB."""


class History:
    """What series were over the last hour, in slots of ten seconds; a slot without a value is a gap, never zero.

    Series need not be declared. One that had no value for the whole span is forgotten, and its memory with it.

    >>> history = History(span=30, step=10)
    >>> history.add(0, {"gpu 0": 40})
    >>> history.add(25, {"gpu 0": 60})
    >>> history.add(29, {"gpu 0": 70})
    >>> history.values("gpu 0")
    (40.0, nan, 65.0)

    Args:
        span: Seconds to keep.
        step: Seconds of one slot.
        max_series: Bound of memory; what comes after it is not kept.
    """

    def __init__(self, *, span: float = SPAN, step: float = STEP, max_series: int = MAX_SERIES) -> None:
        self.span = span
        self.step = step
        self._slots = max(1, round(span / step))
        self._max_series = max_series
        self._series: dict[Hashable, _Ring] = {}
        self._newest: int | None = None

    def add(self, now: float, values: Mapping[Hashable, float]) -> None:
        """Take in one sample.

        Args:
            now: When it was taken, in seconds of a clock that does not jump (`time.monotonic`). A time before the
                newest one counts as the newest.
            values: A value by series; those that are not finite are left out.
        """
        slot = math.floor(now / self.step)
        if self._newest is None or slot > self._newest:
            self._newest = slot
            self._forget(slot - self._slots)
        for key, value in values.items():
            if not math.isfinite(value):
                continue
            ring = self._series.get(key)
            if ring is None:
                if len(self._series) >= self._max_series:
                    continue
                ring = self._series[key] = _Ring(self._slots, self._newest)
            ring.add(self._newest, value)

    def values(self, key: Hashable) -> tuple[float, ...]:
        """One value per slot, the oldest first, the newest slot of all series last; NaN is a gap."""
        ring = self._series.get(key)
        if ring is None or self._newest is None:
            return (math.nan,) * self._slots
        return ring.values(self._newest)

    def __len__(self) -> int:
        """How many series are kept."""
        return len(self._series)

    def _forget(self, before: int) -> None:
        gone = [key for key, ring in self._series.items() if ring.newest <= before]
        for key in gone:
            del self._series[key]


class _Ring:
    """The slots of one series; slot `n` stands at place `n % size`."""

    __slots__ = ("_count", "_means", "newest")

    def __init__(self, size: int, first: int) -> None:
        self._means = array("d", [math.nan]) * size
        self._count = 0
        self.newest = first

    def add(self, slot: int, value: float) -> None:
        size = len(self._means)
        if slot > self.newest:
            for skipped in range(max(self.newest + 1, slot - size + 1), slot):
                self._means[skipped % size] = math.nan
            self.newest = slot
            self._count = 0
        place = slot % size
        before = self._means[place] if self._count else 0.0
        self._count += 1
        self._means[place] = before + (value - before) / self._count

    def values(self, until: int) -> tuple[float, ...]:
        size = len(self._means)
        newest = self.newest
        return tuple(
            self._means[slot % size] if newest - size < slot <= newest else math.nan
            for slot in range(until - size + 1, until + 1)
        )


def thin(values: Sequence[float], count: int) -> list[float]:
    """At most `count` values, each the mean of its share; a share without a value is a gap.

    >>> thin([1, 3, float("nan"), 5, float("nan"), float("nan")], 3)
    [2.0, 5.0, nan]
    """
    if len(values) <= count:
        return list(values)
    edges = [index * len(values) // count for index in range(count + 1)]
    return [_mean(values[start:end]) for start, end in pairwise(edges)]


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan
