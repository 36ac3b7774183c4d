"""What tells several runs apart: figures with the best marked, settings that differ. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.report.figures import UNKNOWN, duration, flatten, number, percent
from stoker.report.runfolder import RunRecord
from stoker.report.summary import MetricFigures, RunSummary, Split

ABSENT = UNKNOWN
"""What stands for a setting that a run does not have."""


@dataclass(frozen=True)
class Row:
    """A figure of all runs; `best` holds the indices of the best runs, empty where none is better."""

    label: str
    cells: tuple[str, ...]
    best: frozenset[int] = frozenset()


def run_labels(records: Sequence[RunRecord]) -> list[str]:
    """Names that tell the runs apart: the folder's name, with its parents where names are equal."""
    names = [record.name for record in records]
    counts = Counter(names)
    labels = [
        "/".join(record.path.parts[-2:]) if counts[name] > 1 else name
        for record, name in zip(records, names, strict=True)
    ]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label} #{index}" for index, label in enumerate(labels, start=1)]


def differing_settings(records: Sequence[RunRecord]) -> dict[str, tuple[str, ...]]:
    """Dotted keys of the spec whose values differ, with one value per run.

    A setting that only names each run's own folder is left out: it always differs and says nothing.
    """
    specs = [flatten(record.spec) for record in records]
    keys = dict.fromkeys(key for spec in specs for key in spec)
    differing: dict[str, tuple[str, ...]] = {}
    for key in keys:
        values = tuple(spec.get(key, ABSENT) for spec in specs)
        own = all(value.rstrip("/").endswith(record.name) for value, record in zip(values, records, strict=True))
        if len(set(values)) > 1 and not own:
            differing[key] = values
    return differing


def figure_rows(summaries: Sequence[RunSummary]) -> list[Row]:
    """The figures side by side: state, metrics, throughput, time and steps."""
    rows = [Row("State", tuple(summary.state for summary in summaries))]
    for split, name in _metric_names(summaries):
        rows += _metric_rows(split, name, [_find(summary, split, name) for summary in summaries])
    rates = [summary.steady_rate for summary in summaries]
    rows.append(Row("Throughput, samples/s", tuple(number(rate, 3) for rate in rates), _best(rates, low=False)))
    times = [summary.wall_seconds for summary in summaries]
    comparable = len({summary.steps for summary in summaries}) == 1  # less time for less work is no merit
    rows.append(Row("Wall time", tuple(map(duration, times)), _best(times, low=True) if comparable else frozenset()))
    waits = [_share(summary, "data") for summary in summaries]
    rows.append(
        Row(
            "Waiting for data",
            tuple(UNKNOWN if wait is None else percent(wait) for wait in waits),
            _best(waits, low=True),
        )
    )
    rows.append(Row("Steps", tuple(f"{summary.steps:,}" for summary in summaries)))
    devices = tuple(summary.devices or UNKNOWN for summary in summaries)
    return [*rows, Row("Devices", devices)] if len(set(devices)) > 1 else rows


def _metric_names(summaries: Sequence[RunSummary]) -> list[tuple[Split, str]]:
    found = [metric for summary in summaries for metric in summary.metrics]
    names: dict[tuple[Split, str], None] = dict.fromkeys((metric.split, metric.name) for metric in found)
    return sorted(names, key=lambda key: (key[0] == "training", key[1] != "loss"))


def _find(summary: RunSummary, split: Split, name: str) -> MetricFigures | None:
    return next((metric for metric in summary.metrics if (metric.split, metric.name) == (split, name)), None)


def _metric_rows(split: Split, name: str, found: Sequence[MetricFigures | None]) -> list[Row]:
    """Last and best of an evaluation; of training only the last, for the best of noisy steps is luck."""
    low = next(metric for metric in found if metric is not None).lower_is_better
    rows = [_value_row(f"{name} ({split}), last", [metric.last.value if metric else None for metric in found], low)]
    if split == "evaluation":
        best = [metric.best.value if metric and metric.best else None for metric in found]
        rows.append(_value_row(f"{name} ({split}), best", best, low))
    return rows


def _value_row(label: str, values: Sequence[float | None], low: bool) -> Row:
    return Row(label, tuple(number(value) for value in values), _best(values, low=low))


def _best(values: Sequence[float | None], *, low: bool) -> frozenset[int]:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if len(set(known)) < 2:
        return frozenset()
    goal = min(known) if low else max(known)
    return frozenset(index for index, value in enumerate(values) if value == goal)


def _share(summary: RunSummary, phase: str) -> float | None:
    return next((spent.share for spent in summary.phases if spent.phase == phase), None)


def settings_by_section(spec: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """The spec's settings by section, each with dotted keys below the section; plain values under ''."""
    sections: dict[str, dict[str, str]] = {}
    for key, value in flatten(spec).items():
        section, dot, rest = key.partition(".")
        sections.setdefault(section if dot else "", {})[rest if dot else key] = value
    return sections
