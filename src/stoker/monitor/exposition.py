"""A sample as the text that Prometheus reads (exposition format 0.0.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, get_args

from stoker.monitor.model import MachineSample
from stoker.monitor.series import Series, all_series, place_of
from stoker.run_status import RunState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SCRAPE_DURATION = "stoker_exporter_scrape_duration_seconds"

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
    parts: list[str] = []
    for series in all_series():
        if series.name == SCRAPE_DURATION:
            lines = [f"{series.name} {scrape_seconds!r}\n"]
        else:
            lines = list(_lines(series, _chains_of(place_of(series).record, sample, chains), labels))
        if lines:
            parts.append(_header(series))
            parts += lines
    return "".join(parts).encode()


def _lines(series: Series, chains: Iterable[Chain], labels: dict[tuple[int, tuple[str, ...]], str]) -> Iterable[str]:
    place = place_of(series)
    own, key = place.labels, place.key
    for chain in chains:
        value: Any = getattr(chain[0], place.field) if place.field else True
        if value is None or value == "":
            continue
        if (shown := labels.get((id(chain[0]), own))) is None:
            shown = labels[id(chain[0]), own] = _label_text(chain, own)
        if series.type == "stateset":
            yield from (f"{series.name}{{{shown},state={_quoted(state)}}} {int(state == value)}\n"
                        for state in get_args(RunState))  # fmt: skip
        elif not key:
            yield f"{series.name}{{{shown}}} {_number(value)}\n" if shown else f"{series.name} {_number(value)}\n"
        else:
            start = f"{series.name}{{{shown}," if shown else f"{series.name}{{"
            items = value.items() if isinstance(value, Mapping) else ((name, 1) for name in value)
            yield from (f"{start}{key}={_quoted(name)}}} {_number(item)}\n" for name, item in items)


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


def _records(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _chains_of(path: str, sample: MachineSample, known: dict[str, list[Chain]]) -> list[Chain]:
    """All records at a path such as `gpus.processes`."""
    if path not in known:
        found: list[Chain] = [(sample,)]
        for step in path.split("."):
            found = [(record, *chain) for chain in found for record in _records(getattr(chain[0], step))]
        known[path] = [chain[:-1] for chain in found]  # the sample itself gives no labels
    return known[path]


@cache
def _header(series: Series) -> str:
    kind = "gauge" if series.type == "stateset" else series.type
    return f"# HELP {series.name} {series.help}\n# TYPE {series.name} {kind}\n"
