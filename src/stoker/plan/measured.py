"""What an operator takes on a device on which operators were timed one by one."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker.plan.trace.log import Op

_NEIGHBOURS = 3


class Timed(NamedTuple):
    """One operator that was timed.

    Attributes:
        name: As in `Op`.
        kind: As in `Cost`.
        flops: Floating point operations, where the shape of a matrix product decides how fast they go.
        nbytes: Read and written.
        shape: As in `Cost`.
        seconds: Of one call.
    """

    name: str
    kind: str
    flops: float
    nbytes: float
    shape: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class _Curve:
    """Seconds over bytes of one operator, ascending."""

    nbytes: list[float]
    seconds: list[float]

    def at(self, nbytes: float) -> float:
        """Between two measurements as a power of the bytes; beyond the last in proportion, before the first equal."""
        if nbytes <= self.nbytes[0]:
            return self.seconds[0]
        if nbytes >= self.nbytes[-1]:
            return self.seconds[-1] * nbytes / self.nbytes[-1]
        right = bisect_right(self.nbytes, nbytes)
        low, high = self.nbytes[right - 1], self.nbytes[right]
        share = math.log(nbytes / low) / math.log(high / low)
        return self.seconds[right - 1] ** (1 - share) * self.seconds[right] ** share


class Measured:
    """Prices operators by those that were timed.

    Args:
        timed: The measurements.
        around: Seconds that an operator takes in training beyond what it takes alone, for Python and autograd, by
            phase: `optimizer`, and `forward` for all others.
    """

    def __init__(self, timed: Iterable[Timed], around: Mapping[str, float] | None = None) -> None:
        self.around = dict(around or {})
        self._shaped: dict[tuple[str, str], list[Timed]] = defaultdict(list)
        grouped: dict[tuple[str, str], list[Timed]] = defaultdict(list)
        for one in timed:
            group = self._shaped if one.shape and one.flops else grouped
            group[one.name, one.kind].append(one)
        self._curves = {key: _curve(found) for key, found in grouped.items()}

    def seconds(self, op: Op) -> float:
        """Time of an operator: by the same operator, or by those of its kind, or by elementwise ones."""
        phase = "optimizer" if op.phase == "optimizer" else "forward"
        return self._alone(op) + self.around.get(phase, 0.0)

    def _alone(self, op: Op) -> float:
        cost = op.cost
        if cost.flops and cost.shape:
            known = self._shaped.get((op.name, cost.kind)) or [
                one for (_, kind), found in self._shaped.items() if kind == cost.kind for one in found
            ]
            if known:
                return cost.flops / _rate_near(cost.shape, known)
        nbytes = cost.read + cost.written
        own = self._curves.get((op.name, cost.kind))
        if own is not None:
            return own.at(nbytes)
        for wanted in (cost.kind, "elementwise"):
            like = [curve.at(nbytes) for (_, kind), curve in self._curves.items() if kind == wanted]
            if like:
                return statistics.median(like)
        return 0.0


def _curve(found: list[Timed]) -> _Curve:
    """One point per size; where one size was timed in several shapes, their median."""
    by_size: dict[float, list[float]] = defaultdict(list)
    for one in found:
        by_size[one.nbytes].append(one.seconds)
    sizes = sorted(by_size)
    return _Curve(sizes, [statistics.median(by_size[size]) for size in sizes])


def _rate_near(shape: tuple[int, ...], known: list[Timed]) -> float:
    """Operations per second at a shape: the mean of the nearest in doublings, near ones counting more."""
    near = sorted((math.dist(_doublings(shape), _doublings(one.shape)), one.flops / one.seconds) for one in known)
    weights = [(1 / (distance + 0.1) ** 2, rate) for distance, rate in near[:_NEIGHBOURS]]
    total = sum(weight for weight, _ in weights)
    return math.exp(sum(weight * math.log(rate) for weight, rate in weights) / total)


def _doublings(shape: tuple[int, ...]) -> list[float]:
    return [math.log2(max(size, 1)) for size in shape]
