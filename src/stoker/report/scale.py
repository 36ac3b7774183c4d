"""From values to places on an axis: ranges, nice ticks, linear and logarithmic. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from stoker.report.figures import short

LOG_RATIO = 30.0
"""Highest over lowest value from which a curve is easier to read on a logarithmic axis."""

HUGE = 1e300
"""Larger values are drawn as this one: a range beyond it is no float any more."""


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`; values outside are placed at its ends."""

    low: float
    high: float
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies between 0 (low) and 1 (high); NaN where it has no place."""
        if not math.isfinite(value) or (self.log and value <= 0):
            return math.nan
        if self.log:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))

    def ticks(self, count: int = 5) -> list[float]:
        """About `count` round values within the axis, in rising order."""
        ticks = _log_ticks(self.low, self.high, count) if self.log else nice_ticks(self.low, self.high, count)
        slack = 1e-9 * (self.high - self.low)
        return [tick for tick in ticks if self.low - slack <= tick <= self.high + slack]


def nice_step(span: float, count: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that divides a span into at most about `count` parts.

    >>> nice_step(97, 5), nice_step(0.9, 5)
    (20.0, 0.2)
    """
    rough = span / max(1, count)
    power = 10.0 ** math.floor(math.log10(rough))
    factor = next(factor for factor in (1, 2, 5, 10) if rough <= factor * power * (1 + 1e-9))
    return factor * power


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Round values that cover the range, the first at or below `low`, the last at or above `high`.

    >>> nice_ticks(0, 97)
    [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    """
    step = nice_step(high - low, count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def _log_ticks(low: float, high: float, count: int) -> list[float]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    stride = max(1, math.ceil((last - first) / count))
    factors = (1, 2, 5) if high / low <= 100 else (1,)  # few powers of ten lie in a short range
    return [float(f"{factor}e{power}") for power in range(first, last + 1, stride) for factor in factors]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Labels with just as many digits as tell the ticks apart.

    >>> tick_labels([0.0, 0.5, 1.0]), tick_labels([10000.0, 12500.0])
    (['0', '0.5', '1'], ['10k', '12.5k'])
    """
    for digits in range(1, 9):
        labels = [short(tick, digits) for tick in ticks]
        exact = all(math.isclose(_parsed(label), tick, rel_tol=1e-9) for label, tick in zip(labels, ticks, strict=True))
        if exact and len(set(labels)) == len(ticks):
            return labels
    return [short(tick, 9) for tick in ticks]


def _parsed(label: str) -> float:
    factor = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(label[-1], 1.0)
    return float(label.rstrip("kMGT")) * factor


def fit_scale(values: Iterable[float], *, from_zero: bool = False, log: bool | None = None) -> Scale:
    """An axis that holds all finite values.

    Args:
        values: May hold NaN and infinities, which are left out.
        from_zero: Let a linear axis begin at zero, where the values are not negative.
        log: Logarithmic or not; by default where all are positive and span a factor of 30.
    """
    finite = [min(HUGE, max(-HUGE, value)) for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if log is None:
        log = low > 0 and high / low >= LOG_RATIO
    if log and low > 0:
        room = (high / low) ** 0.04 if high > low else 2.0
        if low / room > 0 and math.isfinite(high * room):
            return Scale(low / room, high * room, log=True)
    anchored = from_zero and low >= 0
    low = 0.0 if anchored else low
    if high - low <= 1e-12 * max(abs(high), abs(low), 1e-288):  # a constant, give or take rounding
        room = abs(high) * 0.1 or 1.0
        low, high = low if anchored else low - room, high + room
    ticks = nice_ticks(low, high)
    return Scale(ticks[0], ticks[-1])


def fit_steps(steps: Iterable[float]) -> Scale:
    """A linear axis of steps that begins and ends with the data."""
    finite = [step for step in steps if math.isfinite(step)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    return Scale(low, high) if high > low else Scale(low - 1, low + 1)
