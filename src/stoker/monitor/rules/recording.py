"""Recording rules: the series of every exporter as one set."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import indent
from typing import Any

from stoker.monitor.rules import tables
from stoker.monitor.rules.promql import Fill, select, with_node
from stoker.monitor.rules.tables import KEYS, Series, Source

WIDE_UNITS = {"joules", "bytes per second"}
"""Units whose raw counters have 64 bits, so that their values may pass the blank values of 32."""


def recording_groups(fill: Fill) -> list[dict[str, Any]]:
    """One group for each scope, as they stand in a rule file, with what is derived from it at the end."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for series in tables.series():
        groups.setdefault(series.scope, []).extend(_rules(series, fill))
    for row in tables.derived():
        groups[row.scope].append({"record": row.series, "expr": fill(row.expr)})
    return [{"name": f"stoker-{scope}", "rules": rules} for scope, rules in groups.items()]


def _rules(series: Series, fill: Fill) -> Iterator[dict[str, Any]]:
    """The rules of a series: one, or one for each value of its label where sources are told apart by it."""
    of_series = [source for source in tables.sources() if source.series == series.series]
    for label, group in groupby(of_series, key=lambda source: source.label):
        key = ", ".join(KEYS[series.scope] + ((series.extra,) if series.extra and not label else ()))
        expr = f"\nor on ({key})\n".join(fill(_branch(series, source)) for source in group)
        rule: dict[str, Any] = {"record": series.series, "expr": expr}
        if label:
            name, _, value = label.partition("=")
            rule["labels"] = {name: value}
        yield rule


def _branch(series: Series, source: Source) -> str:
    """What one exporter has of a series, with the labels and in the unit of the common set."""
    exporter = tables.exporters()[source.exporter]
    vector = select(source.expr, exporter, wide=series.unit in WIDE_UNITS)
    labels = tuple(label for label in series.labels if not source.label or label != series.extra)
    if series.scope == "gpu":
        frame = exporter.alone if source.alone else exporter.gpu
        vector = frame.replace("[[expr]]", vector).replace("[[on]]", series.extra)
    aggregated = f"{series.aggregate} by ({', '.join(labels)}) (\n{indent(with_node(vector), '  ')}\n)"
    return f"{source.factor} * {aggregated}" if source.factor else aggregated
