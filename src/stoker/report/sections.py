"""Cards of a page that is no report of a run: a heading, and below it what there is to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.report.charts import Part, colour, stacked_bar
from stoker.report.figures import percent
from stoker.report.panels import LegendEntry, Panel, SplitRow, TimeSplit


@dataclass(frozen=True)
class Table:
    """Rows of written values; the first column names the row."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Section:
    """One card.

    Attributes:
        heading: What it is about.
        table: Values in rows.
        split: A bar divided into parts, with its legend.
        panels: Charts that read their values where a reader points.
        picture: A chart that does not, as SVG.
        legend: What the colours of the picture mean.
        note: What belongs to it, below.
    """

    heading: str
    table: Table | None = None
    split: TimeSplit | None = None
    panels: Sequence[Panel] = ()
    picture: str = ""
    legend: Sequence[LegendEntry] = ()
    note: str = ""


def split_of(title: str, parts: Sequence[tuple[Part, str]], *, key: str, whole: float | None = None) -> TimeSplit:
    """A bar divided in proportion to its parts, each with its amount in words.

    Args:
        title: For people who do not see the bar.
        parts: Each with its amount.
        key: Makes the identifiers unique in the page.
        whole: What the full length stands for, where the parts leave some of it over; by default their sum.
    """
    total = max(whole or 0.0, sum(part.value for part, _ in parts)) or 1.0
    rows = [SplitRow(part.name, colour(part.colour), percent(part.value / total), amount) for part, amount in parts]
    return TimeSplit(stacked_bar(title, [part for part, _ in parts], key=key, whole=total), tuple(rows))
