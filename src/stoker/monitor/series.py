"""Every series that the exporter can give: the rows of `tables/metrics.csv`, typed."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast, get_args

SeriesType = Literal["gauge", "counter", "stateset"]
Group = Literal["fast", "slow", "event", "host", "run", "scrape"]
"""How often a value is read anew: see docs/reference/metrics."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series.

    Attributes:
        name: As Prometheus sees it.
        type: `stateset` is a gauge with one series per state, 1 for the state that holds.
        unit: Such as `bytes`; empty for counts, codes and versions.
        labels: Names of its labels. One that is no field of the record is the key of a mapping.
        field: Path in `MachineSample`, such as `gpus.power_watts`; a path that ends at a record is an info series.
        every: The group whose interval it has.
        help: What it says.
        facts_row: The row of the facts' table gpu_metrics that it answers; empty for what lies beyond it.
        dcgm_exporter: dcgm-exporter's names of the same, the usual one first.
        source: Where the value comes from.
    """

    name: str
    type: SeriesType
    unit: str
    labels: tuple[str, ...]
    field: str
    every: Group
    help: str
    facts_row: str
    dcgm_exporter: tuple[str, ...]
    source: str


@cache
def all_series() -> tuple[Series, ...]:
    """All rows of the table, in its order.

    Raises:
        ValueError: A cell holds a word that is not known.
    """
    text = files("stoker.monitor").joinpath("tables", "metrics.csv").read_text(encoding="utf-8")
    return tuple(_series(row) for row in csv.DictReader(text.splitlines(), strict=True))


def _series(row: dict[str, str]) -> Series:
    if row["type"] not in get_args(SeriesType) or row["every"] not in get_args(Group):
        raise ValueError(f"metrics.csv: {row['series']}: {row['type']} or {row['every']} is not known")
    return Series(
        name=row["series"],
        type=cast(SeriesType, row["type"]),
        unit=row["unit"],
        labels=tuple(row["labels"].split("|")) if row["labels"] else (),
        field=row["field"],
        every=cast(Group, row["every"]),
        help=row["help"],
        facts_row=row["facts_row"],
        dcgm_exporter=tuple(row["dcgm_exporter"].split("|")) if row["dcgm_exporter"] else (),
        source=row["source"],
    )
