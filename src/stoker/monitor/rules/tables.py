"""The tables of the rules, as typed rows."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar

Row = TypeVar("Row")
Scope = Literal["gpu", "run", "mount", "node", "target"]
Severity = Literal["critical", "warning", "info"]

SCOPES: Mapping[Scope, tuple[str, ...]] = {
    "gpu": ("node", "gpu", "uuid", "model"),
    "run": ("node", "run", "folder"),
    "mount": ("node", "mount"),
    "node": ("node",),
    "target": ("node", "job", "instance"),
}
"""The labels that a series of each scope carries."""

KEYS: Mapping[Scope, tuple[str, ...]] = {**SCOPES, "gpu": ("uuid",), "target": ("job", "instance")}
"""Of these, those that tell whether two exporters speak of the same thing."""


@dataclass(frozen=True)
class Exporter:
    """An exporter whose series are understood.

    Attributes:
        gpu: PromQL that gives a vector, written `[[expr]]`, the labels gpu, uuid and model; empty if it has no GPUs.
        alone: The same for series that are there while what names the GPU is not; `[[on]]` are their own labels.
        blank: Values from here on mean "not measured"; None if the exporter leaves out what it does not know.
        blank_wide: The same for counters of 64 bits.
    """

    name: str
    title: str
    source: str
    gpu: str = ""
    alone: str = ""
    blank: float | None = None
    blank_wide: float | None = None


@dataclass(frozen=True)
class Series:
    """One series of the common set.

    Attributes:
        extra: A label that it carries beside those of its scope; empty if none.
        aggregate: How several raw series of one thing become one.
    """

    series: str
    scope: Scope
    extra: str
    aggregate: Literal["max", "count"]
    unit: str
    meaning: str

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of the series."""
        return SCOPES[self.scope] + ((self.extra,) if self.extra else ())


@dataclass(frozen=True)
class Source:
    """Where one exporter has a series of the common set.

    Attributes:
        expr: PromQL over the exporter's names. `{A|B}` are spellings of one name, without the exporter's blank
            values; `{=A|B}` is the bare selector, for ranges and offsets.
        factor: What to multiply with to reach the common unit; empty for 1.
        label: `name=value` of the extra label, where the exporter has one series per value.
        alone: `yes` if the series is there while what names the GPU is not.
    """

    series: str
    exporter: str
    expr: str
    factor: str
    label: str
    alone: Literal["yes", ""]
    note: str
    source: str


@dataclass(frozen=True)
class Threshold:
    """A figure that an alert judges by; `model` is a regular expression, empty for all other models."""

    name: str
    model: str
    value: float
    unit: str
    why: str
    source: str


@dataclass(frozen=True)
class Derived:
    """A series made of others of the common set; without those that it `needs` it does not exist."""

    scope: Scope
    series: str
    unit: str
    meaning: str
    needs: tuple[str, ...]
    expr: str


@dataclass(frozen=True)
class Alert:
    """One alert; `tables/alerts.yaml` says what each field means."""

    alert: str
    scope: Scope
    severity: Severity
    wait: str
    series: tuple[str, ...]
    expr: str
    title: str
    title_zh: str
    meaning: str
    meaning_zh: str
    causes: tuple[str, ...]
    steps: tuple[str, ...]
    labels: tuple[str, ...] = ()
    value: str = ""
    value_zh: str = ""
    not_for: tuple[str, ...] = ()
    optional: bool = field(default=False, kw_only=True)
    """It belongs to the guides' rules, which are not loaded unless asked for."""

    @property
    def page(self) -> str:
        """Name of its runbook page, without the ending: `GpuLost` is `gpu-lost`."""
        return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in self.alert).lstrip("-")


@cache
def exporters() -> Mapping[str, Exporter]:
    """The exporters by name, in the order of preference."""
    return {row["name"]: Exporter(**row) for row in _yaml("exporters.yaml")}


@cache
def series() -> tuple[Series, ...]:
    """The common set, in the order in which it is recorded."""
    return _csv("series.csv", Series)


@cache
def sources() -> tuple[Source, ...]:
    """Every source of every series, each exporter's first one the preferred."""
    return _csv("sources.csv", Source)


@cache
def derived() -> tuple[Derived, ...]:
    """What is computed from the common set."""
    return tuple(Derived(**row | {"needs": tuple(row["needs"])}) for row in _yaml("derived.yaml"))


@cache
def thresholds() -> tuple[Threshold, ...]:
    """All figures; of one name the row for all models first, then those of single models."""
    return tuple(replace(row, value=float(row.value)) for row in _csv("thresholds.csv", Threshold))


@cache
def alerts() -> tuple[Alert, ...]:
    """The alerts that are on by default."""
    return _alerts("alerts.yaml", optional=False)


@cache
def guide_alerts() -> tuple[Alert, ...]:
    """The plain thresholds of many guides."""
    return _alerts("guides.yaml", optional=True)


def _alerts(name: str, *, optional: bool) -> tuple[Alert, ...]:
    lists = {"series", "causes", "steps", "labels", "not_for"}

    def cell(key: str, value: Any) -> Any:
        return tuple(value) if key in lists else value

    return tuple(
        Alert(**{key: cell(key, row[key]) for key in row if key != "for"}, wait=row["for"], optional=optional)
        for row in _yaml(name)
    )


def _csv(name: str, row_type: type[Row]) -> tuple[Row, ...]:
    reader = csv.DictReader(_text(name).splitlines(keepends=True), strict=True)
    names = [one.name for one in fields(row_type)]  # type: ignore[arg-type]  # a dataclass by contract
    if reader.fieldnames != names:
        raise ValueError(f"{name}: the columns are not those of {row_type.__name__}")
    return tuple(row_type(**row) for row in reader)


def _yaml(name: str) -> Any:
    import yaml

    return yaml.safe_load(_text(name))


def _text(name: str) -> str:
    return (files("stoker.monitor.rules") / "tables" / name).read_text(encoding="utf-8")
