"""Cards of a page that is no report of a run: a heading, and below it what there is to show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stoker.report.panels import LegendEntry, Panel, TimeSplit


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
