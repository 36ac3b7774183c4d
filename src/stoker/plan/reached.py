"""What square matrix products reach on each card, as measured with PyTorch, as a fraction of its dense peak.

`reached.csv` holds, by card and number format, the best rate of single products (TFLOP/s) and the rate that random
matrices keep up for seconds, when the clock has settled at the power limit. Training is of the second kind. A card of
which only the best is known keeps up the median share of it that other cards do; a card of which nothing is known
reaches what the median card of its class does.
"""

from __future__ import annotations

import csv
import functools
import statistics
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple


class Fraction(NamedTuple):
    """What is reached of a peak, or a small cost.

    Attributes:
        value: What is expected.
        low: Low end of the range.
        high: High end of the range.
        source: Where it comes from.
    """

    value: float
    low: float
    high: float
    source: str


class Reached(NamedTuple):
    """Rates of square products on one card, in TFLOP/s; None for what nobody has measured."""

    best: float | None
    sustained: float | None
    source: str


FORMATS = {"half": "gemm", "tf32": "gemm_tf32", "float32": "gemm_fp32", "float8": "gemm_fp8"}
"""Formats of the table, and the quantity that each becomes."""

PEAKS = {"half": ("bfloat16", "float16"), "tf32": ("tf32",), "float32": ("float32",), "float8": ("float8",)}
"""Formats of the table, and the peaks that each is a fraction of: the first that is known."""

SPREAD = 0.95
"""Cards of one node differ by 5 % and more (stas00/ml-engineering compute/accelerator/README.md)."""


def table(name: str) -> list[dict[str, str]]:
    """Rows of one of the planner's tables."""
    text = (resources.files("stoker.plan") / "tables" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def measured() -> Mapping[tuple[str, str], Reached]:
    """The table, by card and format."""
    return {
        (row["name"], row["format"]): Reached(_number(row["best"]), _number(row["sustained"]), row["source"])
        for row in table("reached")
    }


@functools.cache
def kept_up() -> tuple[float, float]:
    """The median and the least share of their best rate that cards keep up."""
    shares = [one.sustained / one.best for one in measured().values() if one.sustained and one.best]
    return statistics.median(shares), min(shares)


def peak_of(name: str, kind: str) -> float | None:
    """Best rate of a card whose data sheet gives no peak for the format, in FLOP/s; None if that is unknown too."""
    found = measured().get((name, kind))
    return None if found is None else 1e12 * (found.best or found.sustained or 0.0) or None


def fraction(name: str, kind: str, peak: float) -> Fraction | None:
    """What products of a format reach of its peak (FLOP/s) on this card; None where nobody has measured it."""
    found = measured().get((name, kind))
    if found is None:
        return None
    usual, least = kept_up()
    if found.sustained is not None:
        value, low = found.sustained, SPREAD * found.sustained
    else:
        best = found.best or 0.0
        value, low = usual * best, least * best
    high = max(value, found.best or value)
    unit = peak / 1e12
    return Fraction(value / unit, low / unit, high / unit, found.source)


def class_fraction(kind: str, members: Mapping[str, float]) -> Fraction | None:
    """Median of a class of cards, with its extremes as range.

    Args:
        kind: Format, as in the table.
        members: Peak of the format by card, in FLOP/s.
    """
    found = [one for name, peak in members.items() if (one := fraction(name, kind, peak)) is not None]
    if not found:
        return None
    source = f"median of {len(found)} measured cards of the class (reached.csv)"
    low, high = min(one.low for one in found), max(one.high for one in found)
    return Fraction(statistics.median(one.value for one in found), low, high, source)


def _number(text: str) -> float | None:
    return float(text) if text else None
