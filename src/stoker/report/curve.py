"""A curve of any length in a bounded number of points, without hiding a spike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

MAX_BUCKETS = 500
"""Each bucket gives at most a low, a high and a gap: 1,500 points. Even, since buckets merge in pairs."""


class Point(NamedTuple):
    """A value at a step; NaN marks a gap, where the value was not finite."""

    step: float
    value: float


@dataclass(frozen=True)
class Curve:
    """What is kept of one column of metrics.

    Attributes:
        extremes: Lowest and highest value of each bucket in the order of their steps, at most 1,500 points.
        means: Mean of the finite values of each bucket, at most 500 points.
        width: How many rows a full bucket holds; with 1, both sequences are the rows themselves.
        rows: How many values were added, over the whole run.
        last: The last value, finite or not.
        low: The first lowest finite value; None without any.
        high: The first highest finite value; None without any.
        bad: How many values were not finite.
        first_bad: Step of the first value that was not finite.
    """

    extremes: tuple[Point, ...]
    means: tuple[Point, ...]
    width: int
    rows: int
    last: Point
    low: Point | None
    high: Point | None
    bad: int = 0
    first_bad: float | None = None


@dataclass(slots=True)
class _Bucket:
    first: float
    last: float
    finite: int = 0
    rows: int = 0
    total: float = 0.0
    low: float = math.inf
    low_at: float = 0.0
    high: float = -math.inf
    high_at: float = 0.0
    bad_at: float | None = None

    def absorb(self, later: _Bucket) -> None:
        self.last = later.last
        self.finite += later.finite
        self.rows += later.rows
        self.total += later.total
        if later.low < self.low:
            self.low, self.low_at = later.low, later.low_at
        if later.high > self.high:
            self.high, self.high_at = later.high, later.high_at
        if self.bad_at is None:
            self.bad_at = later.bad_at

    def end_before(self, step: float) -> None:
        """Move what lies at or after `step` to just before it: at most one bucket's width to the left."""
        edge = max(self.first, step - 1)
        self.last = edge
        self.low_at, self.high_at = min(self.low_at, edge), min(self.high_at, edge)
        self.bad_at = None if self.bad_at is None else min(self.bad_at, edge)

    def extremes(self) -> list[Point]:
        points = [Point(self.low_at, self.low)] if self.finite else []
        if self.finite > 1 and self.high_at != self.low_at:
            points.append(Point(self.high_at, self.high))
        if self.bad_at is not None:
            points.append(Point(self.bad_at, math.nan))
        return sorted(points, key=lambda point: point.step)

    def mean(self) -> Point:
        middle = (self.first + self.last) / 2
        value = self.total / self.finite if self.finite else math.nan
        return Point(middle, value if math.isfinite(value) else math.nan)  # a sum of huge values may overflow


class CurveBuilder:
    """Takes values one by one and keeps at most 500 buckets of them.

    When the buckets are full, neighbours merge and each holds twice as many rows from then on, so that
    neither the length of the run need be known beforehand nor its rows be kept.

    >>> builder = CurveBuilder()
    >>> for step in range(1, 1001):
    ...     builder.add(step, 1 / step)
    >>> curve = builder.build()
    >>> curve.width, len(curve.means), curve.low
    (2, 500, Point(step=1000, value=0.001))
    """

    def __init__(self) -> None:
        self._buckets: list[_Bucket] = []
        self._width = 1
        self._rows = 0
        self._bad = 0
        self._first_bad: float | None = None
        self._last = Point(0.0, math.nan)
        self._low = Point(0.0, math.inf)
        self._high = Point(0.0, -math.inf)

    def add(self, step: float, value: float) -> None:
        """Add the value of a step; steps come in rising order, see `rewind`."""
        if not self._buckets or self._buckets[-1].rows >= self._width:
            self._open(step)
        bucket = self._buckets[-1]
        bucket.last = step
        bucket.rows += 1
        self._rows += 1
        self._last = Point(step, value)
        if not math.isfinite(value):
            self._bad += 1
            self._first_bad = step if self._first_bad is None else self._first_bad
            bucket.bad_at = step if bucket.bad_at is None else bucket.bad_at
            return
        bucket.finite += 1
        bucket.total += value
        if value < bucket.low:
            bucket.low, bucket.low_at = value, step
            if value < self._low.value:
                self._low = Point(step, value)
        if value > bucket.high:
            bucket.high, bucket.high_at = value, step
            if value > self._high.value:
                self._high = Point(step, value)

    def rewind(self, step: float) -> None:
        """Forget the drawn part from `step` on: a resumed run does these steps again."""
        while self._buckets and self._buckets[-1].first >= step:
            self._buckets.pop()
        if self._buckets and self._buckets[-1].last >= step:
            self._buckets[-1].end_before(step)

    def build(self) -> Curve:
        """The curve so far."""
        return Curve(
            extremes=tuple(point for bucket in self._buckets for point in bucket.extremes()),
            means=tuple(bucket.mean() for bucket in self._buckets),
            width=self._width,
            rows=self._rows,
            last=self._last,
            low=self._low if math.isfinite(self._low.value) else None,
            high=self._high if math.isfinite(self._high.value) else None,
            bad=self._bad,
            first_bad=self._first_bad,
        )

    def _open(self, step: float) -> None:
        if len(self._buckets) == MAX_BUCKETS:
            for left, right in zip(self._buckets[::2], self._buckets[1::2], strict=True):
                left.absorb(right)
            self._buckets = self._buckets[::2]
            self._width *= 2
        self._buckets.append(_Bucket(first=step, last=step))


def curve_of(points: Sequence[Point]) -> Curve:
    """The curve of points that are all at hand."""
    builder = CurveBuilder()
    for point in points:
        builder.add(*point)
    return builder.build()


def smooth(points: Sequence[Point], reach: int | None = None) -> tuple[Point, ...]:
    """A centred moving average with weights that fall off linearly; gaps stay gaps and weigh nothing.

    Args:
        points: Values at rising steps.
        reach: How many neighbours on each side take part; by default a fortieth of the points.
    """
    span = max(1, len(points) // 40) if reach is None else reach
    smoothed: list[Point] = []
    for middle, point in enumerate(points):
        if math.isnan(point.value):
            smoothed.append(point)
            continue
        total = weights = 0.0
        for index in range(max(0, middle - span), min(len(points), middle + span + 1)):
            if not math.isnan(points[index].value):
                weight = 1 + span - abs(index - middle)
                total += weight * points[index].value
                weights += weight
        smoothed.append(Point(point.step, total / weights))
    return tuple(smoothed)
