"""A sample as the text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple, get_args

from stoker.monitor.model import MachineSample
from stoker.monitor.series import Place, Series, all_series, place_of
from stoker.run_status import RunState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCRAPE_DURATION = "stoker_exporter_scrape_duration_seconds"

_STATES: tuple[str, ...] = get_args(RunState)
_EVER_NEW: Mapping[str, Sequence[str]] = {"gpus": ("sample_age_seconds",)}
"""Fields of the parts of a sample that differ at every scrape, while the rest of the part stays for seconds."""

Chain = tuple[Any, ...]
"""A record with those that it is part of, innermost first: its labels are looked for in this order."""


class _Family(NamedTuple):
    """A series, and where in the sample it has its values."""

    series: Series
    place: Place
    header: str
    part: str
    """First step of the place's path: a field of the sample."""


class _Kept(NamedTuple):
    """A record of the sample as it was last seen, without what is ever new, and its lines by number of the family."""

    record: Any
    lines: Mapping[int, str]


class Exposition:
    """Renders samples. What has not changed since the sample before is not rendered again.

    Several threads may use it at once: each sees the lines of the sample that it brings.
    """

    def __init__(self) -> None:
        self._kept: Mapping[tuple[str, int], _Kept] = {}

    def render(self, sample: MachineSample, scrape_seconds: float) -> bytes:
        """Every series of the table that has a value.

        Args:
            sample: What is known.
            scrape_seconds: How long the answer before this one took.
        """
        lines = self._lines(sample)
        found: list[str] = []
        for number, family in enumerate(_families()):
            shown = [part[number] for part in lines.get(family.part, ()) if number in part]
            if shown:
                found.append(family.header)
                found += shown
        found.append(f"{_header(_scrape_duration())}{SCRAPE_DURATION} {scrape_seconds!r}\n")
        return "".join(found).encode()

    def prepare(self, sample: MachineSample) -> None:
        """Render what is new in a sample, for the next answer."""
        self._lines(sample)

    def _lines(self, sample: MachineSample) -> dict[str, list[Mapping[int, str]]]:
        """Lines of every record of the sample, by the field that the record stands in."""
        kept: dict[tuple[str, int], _Kept] = {}
        found: dict[str, list[Mapping[int, str]]] = {}
        for part in _parts():
            ever_new = _EVER_NEW.get(part, ())
            for number, record in enumerate(_records(getattr(sample, part))):
                still = replace(record, **dict.fromkeys(ever_new)) if ever_new else record
                before = self._kept.get((part, number))
                if before is None or before.record != still:
                    before = _Kept(still, dict(_lines_of(part, still, only=None)))
                kept[part, number] = before
                new = dict(_lines_of(part, record, only=ever_new)) if ever_new else {}
                found.setdefault(part, []).append({**before.lines, **new} if new else before.lines)
        self._kept = kept
        return found


def _lines_of(part: str, record: Any, *, only: Sequence[str] | None) -> Iterator[tuple[int, str]]:
    """The lines of a record and of those within it, by number of the family.

    Args:
        part: Field of the sample that the record stands in.
        record: The record.
        only: Fields of the record itself; None for all, also of those within it.
    """
    chains: dict[str, list[Chain]] = {}
    labels: dict[tuple[int, tuple[str, ...]], str] = {}
    for number, (series, place, _, _) in _families_of(part):
        if only is not None and (place.record != part or place.field not in only):
            continue
        if place.record not in chains:
            chains[place.record] = _chains_at(place.record, record)
        lines: list[str] = []
        for chain in chains[place.record]:
            value: Any = getattr(chain[0], place.field) if place.field else True
            if value is None or value == "":
                continue
            if (shown := labels.get((id(chain[0]), place.labels))) is None:
                shown = labels[id(chain[0]), place.labels] = _label_text(chain, place.labels)
            _add_lines(lines, series, place, shown, value)
        if lines:
            yield number, "".join(lines)


def _add_lines(lines: list[str], series: Series, place: Place, shown: str, value: Any) -> None:
    """The lines of one series for one record, whose labels are `shown`."""
    if series.type == "stateset":
        lines += [f"{series.name}{{{shown},state={_quoted(state)}}} {int(state == value)}\n" for state in _STATES]
    elif not place.key:
        lines.append(f"{series.name}{{{shown}}} {_number(value)}\n" if shown else f"{series.name} {_number(value)}\n")
    else:
        start = f"{series.name}{{{shown},{place.key}=" if shown else f"{series.name}{{{place.key}="
        items = value.items() if isinstance(value, Mapping) else ((name, 1) for name in value)
        lines += [f"{start}{_quoted(name)}}} {_number(item)}\n" for name, item in items]


@cache
def _families() -> tuple[_Family, ...]:
    """All series but the one that no record holds."""
    held = [series for series in all_series() if series.field]
    return tuple(_Family(one, place_of(one), _header(one), one.field.partition(".")[0]) for one in held)


@cache
def _families_of(part: str) -> tuple[tuple[int, _Family], ...]:
    return tuple((number, family) for number, family in enumerate(_families()) if family.part == part)


@cache
def _parts() -> tuple[str, ...]:
    return tuple(dict.fromkeys(family.part for family in _families()))


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
    """All records within one at a path such as `gpus.processes`, whose first step the record itself stands for."""
    found: list[Chain] = [(record,)]
    for step in path.split(".")[1:]:
        found = [(inner, *chain) for chain in found for inner in _records(getattr(chain[0], step))]
    return found


def _records(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _header(series: Series) -> str:
    kind = "gauge" if series.type == "stateset" else series.type
    return f"# HELP {series.name} {series.help}\n# TYPE {series.name} {kind}\n"
