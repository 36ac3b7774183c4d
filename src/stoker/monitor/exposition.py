"""A sample as the text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from stoker.monitor.model import MachineSample
from stoker.monitor.series import Place, Series, all_series, fields_of, place_of
from stoker.run_status import RunState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCRAPE_DURATION = "stoker_exporter_scrape_duration_seconds"

_STATES: tuple[str, ...] = get_args(RunState)
Chain = tuple[Any, ...]
"""A record with those that it is part of, innermost first: its labels are looked for in this order."""


@dataclass(frozen=True)
class _Family:
    """One series with the place of its value, and what stands above its lines."""

    series: Series
    place: Place
    header: str


@dataclass(frozen=True)
class _Group:
    """Families that are made together: of one kind of record, and all or none of them new at each scrape.

    Attributes:
        part: The field of `MachineSample` that holds the records, such as `gpus`.
        families: What is shown of each record.
        shown: Takes from a record all that these families show of it.
    """

    part: str
    families: Sequence[_Family]
    shown: Callable[[Any], Any]


class _Made(NamedTuple):
    """What a record became: the lines of each family of its group, and what these show."""

    shown: Any
    lines: Sequence[str]


class Exposition:
    """Renders one sample after another; lines that would show the same as the last time are not made again.

    Most of a sample is the sample before: GPUs are read every few seconds, and only ages have grown since.
    """

    def __init__(self) -> None:
        self._made: list[list[_Made]] = [[] for _ in _groups()]
        self._rendering = threading.Lock()

    def render(self, sample: MachineSample, scrape_seconds: float) -> bytes:
        """Every series of the table that has a value.

        Args:
            sample: What is known.
            scrape_seconds: How long the answer before this one took.
        """
        parts: list[str] = []
        with self._rendering:  # who comes meanwhile finds it made
            self._made = [_make(group, sample, before) for group, before in zip(_groups(), self._made, strict=True)]
            for group, made in zip(_groups(), self._made, strict=True):
                for family, *lines in zip(group.families, *(one.lines for one in made), strict=True):
                    if any(lines):
                        parts += family.header, *lines
        parts.append(f"{_header(_scrape_duration())}{SCRAPE_DURATION} {scrape_seconds!r}\n")
        return "".join(parts).encode()


def _make(group: _Group, sample: MachineSample, before: Sequence[_Made]) -> list[_Made]:
    """What the records of a group become; one that shows the same as the one in its place `before` becomes the same."""
    records = _records(getattr(sample, group.part))
    made: list[_Made] = []
    for record, old in zip_longest(records, before[: len(records)]):
        shown = group.shown(record)
        made.append(old if old and old.shown == shown else _Made(shown, _lines_of(record, group.families)))
    return made


def _lines_of(record: Any, families: Sequence[_Family]) -> list[str]:
    """All lines of each family for one record and the records in it."""
    chains: dict[str, list[Chain]] = {}
    labels: dict[tuple[int, tuple[str, ...]], str] = {}
    found: list[str] = []
    for family in families:
        place = family.place
        if place.record not in chains:
            chains[place.record] = _chains_at(place.record, record)
        lines = ""
        for chain in chains[place.record]:
            value: Any = getattr(chain[0], place.field) if place.field else True
            if value is None or value == "":
                continue
            if (shown := labels.get((id(chain[0]), place.labels))) is None:
                shown = labels[id(chain[0]), place.labels] = _label_text(chain, place.labels)
            lines += _lines(family.series, place, shown, value)
        found.append(lines)
    return found


def _lines(series: Series, place: Place, shown: str, value: Any) -> str:
    """The lines of one series for one record, whose labels are `shown`."""
    if series.type == "stateset":
        start, items = f"{shown},state=", ((state, int(state == value)) for state in _STATES)
    elif not place.key:
        return f"{series.name}{{{shown}}} {_number(value)}\n" if shown else f"{series.name} {_number(value)}\n"
    else:
        start = f"{shown},{place.key}=" if shown else f"{place.key}="
        items = value.items() if isinstance(value, Mapping) else ((name, 1) for name in value)
    return "".join([f"{series.name}{{{start}{_quoted(name)}}} {_number(item)}\n" for name, item in items])


@cache
def _groups() -> tuple[_Group, ...]:
    """All series but the one that no record holds."""
    groups: dict[tuple[str, bool], list[_Family]] = {}
    for series in all_series():
        if series.field:
            key = series.field.partition(".")[0], series.every == "scrape"
            groups.setdefault(key, []).append(_Family(series, place_of(series), _header(series)))
    return tuple(_Group(part, families, _shown_by(part, families)) for (part, _), families in groups.items())


def _shown_by(part: str, families: Sequence[_Family]) -> Callable[[Any], Any]:
    """Takes from a record of a part the fields that families have their values and labels from."""
    shown = {name for family in families for name in (*family.place.labels, *family.series.field.split(".")[1:2])}
    return attrgetter(*(name for name in fields_of(part) if name in shown))


@cache
def _scrape_duration() -> Series:
    return next(series for series in all_series() if series.name == SCRAPE_DURATION)


def _number(value: Any) -> str:
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(value)
        return "NaN" if value != value else "+Inf" if value > 0 else "-Inf"
    return "1" if isinstance(value, str) else str(int(value))


def _label_text(chain: Chain, names: tuple[str, ...]) -> str:
    found: list[str] = []
    for name in names:
        holder = next(record for record in chain if hasattr(record, name))
        found.append(f"{name}={_quoted(getattr(holder, name))}")
    return ",".join(found)


def _quoted(value: object) -> str:
    text = str(value)
    if "\\" in text or '"' in text or "\n" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'


def _chains_at(path: str, record: Any) -> list[Chain]:
    """All records at a path such as `gpus.processes`, seen from the record at its first step."""
    found: list[Chain] = [(record,)]
    for step in path.split(".")[1:]:
        found = [(inner, *chain) for chain in found for inner in _records(getattr(chain[0], step))]
    return found


def _records(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _header(series: Series) -> str:
    kind = "gauge" if series.type == "stateset" else series.type
    return f"# HELP {series.name} {series.help}\n# TYPE {series.name} {kind}\n"
