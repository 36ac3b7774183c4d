"""Expressions of the tables turned into PromQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from textwrap import indent

from stoker.facts.signals import xids
from stoker.monitor.rules.tables import Exporter, Threshold

Fill = Callable[[str], str]
"""Puts the figures into an expression of the tables."""

_SPELLINGS = re.compile(r"\{(=?)([A-Za-z_][\w|]*)\}")
_PLACE = re.compile(r"\[\[(\w+)(?: (by model|fatal|critical|warning|info|known))?\]\]")

NODE_PATTERN = "[|]*([^|]+?)(:[0-9]+)?([|].*)?"
"""The first that is not empty of several labels joined by `|`, without a port."""


def select(expr: str, exporter: Exporter, *, wide: bool = False) -> str:
    """Write out the spellings of names: `{A|B}` without the exporter's blank values, `{=A|B}` as a bare selector.

    `wide` says that the series is a counter of 64 bits.
    """
    blank = exporter.blank_wide if wide else exporter.blank

    def written(found: re.Match[str]) -> str:
        bare, names = found.groups()
        selector = f'{{__name__=~"{names}"}}' if "|" in names else names
        return selector if bare or blank is None else f"({selector} < {blank:.15g})"

    return _SPELLINGS.sub(written, expr)


def with_node(vector: str) -> str:
    """Give a vector the label `node`: its own one, the machine's name as dcgm-exporter tells it, or its address."""
    return (
        f"label_replace(label_join(\n{indent(vector, '  ')},\n"
        f'"node", "|", "node", "Hostname", "hostname", "instance"), "node", "$1", "node", "{NODE_PATTERN}")'
    )


def filler(rows: tuple[Threshold, ...], changed: Mapping[str, float]) -> Fill:
    """What puts thresholds and Xid codes in their places.

    Args:
        rows: The figures.
        changed: Figures to take instead, for all models.

    Raises:
        KeyError: When called on an expression that names a figure that is not in the table.
    """
    plain = {row.name: row.value for row in rows if not row.model} | dict(changed)

    def fill(expr: str) -> str:
        return _PLACE.sub(written, expr)

    def written(found: re.Match[str]) -> str:
        name, kind = found.groups()
        if name == "xid":
            return xid_codes(kind)
        if kind != "by model":
            return f"{plain[name]:.15g}"
        of_models = () if name in changed else tuple(row for row in rows if row.name == name and row.model)
        branches = [f'{row.value:.15g} + 0 * gpu:info{{model=~"{row.model}"}}' for row in of_models]
        return "(" + " or on (uuid) ".join([*branches, f"{plain[name]:.15g} + 0 * gpu:info"]) + ")"

    return fill


def xid_codes(kind: str) -> str:
    """Codes of a severity as a pattern; `known` for all whose number tells their severity."""
    wanted = {"fatal", "critical", "warning", "info"} if kind == "known" else {kind}
    return "|".join(str(code) for code, row in sorted(xids().items()) if row.severity in wanted)
