"""Every series that the exporter can give: the rows of `tables/metrics.csv`, typed."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, cast, get_args, get_type_hints

from stoker.monitor.model import MachineSample

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a series has its value and its labels.

    Attributes:
        record: Path of the record that holds the value, such as `gpus` or `gpus.processes`.
        field: The record's field; empty for an info series, whose value is that the record is there.
        labels: Labels that are fields of the record or of one that it is part of.
        key: Label whose values are the keys of the mapping, or the items of the tuple, that the field is; empty if
            it is neither.
    """

    record: str
    field: str
    labels: tuple[str, ...]
    key: str


@cache
def place_of(series: Series) -> Place:
    """Found out from the types of the data model.

    Raises:
        AttributeError: The path leads nowhere.
    """
    path = series.field.split(".")
    types = _record_types(path)
    is_record = len(types) == len(path)
    names = {field.name for record in types for field in fields(record)}
    own = tuple(label for label in series.labels if label in names)
    if series.type == "stateset":
        return Place(".".join(path[:-1]), path[-1], tuple(label for label in own if label != path[-1]), "")
    key = next((label for label in series.labels if label not in names), "")
    return Place(series.field if is_record else ".".join(path[:-1]), "" if is_record else path[-1], own, key)


def fields_of(path: str) -> tuple[str, ...]:
    """Names of all fields of the records at a path such as `gpus`.

    Raises:
        AttributeError: The path leads nowhere.
    """
    return tuple(field.name for field in fields(_record_types(path.split("."))[-1]))


def _record_types(path: list[str]) -> list[type[Any]]:
    """Types of the records along a path; a last step that is no record has none."""
    found: list[type[Any]] = []
    record: type[Any] = MachineSample
    for step in path:
        hint = get_type_hints(record).get(step)
        if hint is None:
            raise AttributeError(f"{record.__name__} has no field {step}")
        inner = next((kind for kind in (hint, *get_args(hint)) if is_dataclass(kind)), None)
        if inner is None:
            break
        record = cast("type[Any]", inner)
        found.append(record)
    return found


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
