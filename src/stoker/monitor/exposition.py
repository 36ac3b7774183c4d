"""A sample as the text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, get_args

from stoker.monitor.model import MachineSample
from stoker.monitor.series import Place, Series, all_series, place_of
from stoker.run_status import RunState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCRAPE_DURATION = "stoker_exporter_scrape_duration_seconds"

_STATES: tuple[str, ...] = get_args(RunState)
Chain = tuple[Any, ...]
"""A record with those that it is part of, innermost first: its labels are looked for in this order."""


def render(sample: MachineSample, scrape_seconds: float) -> bytes:
    """Every series of the table that has a value.

    Args:
        sample: What is known.
        scrape_seconds: How long the answer before this one took.
    """
    chains: dict[str, list[Chain]] = {}
    labels: dict[tuple[int, tuple[str, ...]], str] = {}
    lines: list[str] = []
    for series, place, header in _families():
        if place.record not in chains:
            chains[place.record] = _chains_at(place.record, sample)
        lines.append(header)
        before = len(lines)
        for chain in chains[place.record]:
            value: Any = getattr(chain[0], place.field) if place.field else True
            if value is None or value == "":
                continue
            if (shown := labels.get((id(chain[0]), place.labels))) is None:
                shown = labels[id(chain[0]), place.labels] = _label_text(chain, place.labels)
            _add_lines(lines, series, place, shown, value)
        if len(lines) == before:
            lines.pop()
    lines.append(f"{_header(_scrape_duration())}{SCRAPE_DURATION} {scrape_seconds!r}\n")
    return "".join(lines).encode()


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
def _families() -> tuple[tuple[Series, Place, str], ...]:
    """All series but the one that no record holds, with their places and headers."""
    return tuple((series, place_of(series), _header(series)) for series in all_series() if series.field)


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


def _chains_at(path: str, sample: MachineSample) -> list[Chain]:
    """All records at a path such as `gpus.processes`."""
    found: list[Chain] = [(sample,)]
    for step in path.split("."):
        found = [(record, *chain) for chain in found for record in _records(getattr(chain[0], step))]
    return [chain[:-1] for chain in found]  # the sample itself gives no labels


def _records(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _header(series: Series) -> str:
    kind = "gauge" if series.type == "stateset" else series.type
    return f"# HELP {series.name} {series.help}\n# TYPE {series.name} {kind}\n"
