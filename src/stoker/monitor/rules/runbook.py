"""The runbook: a page for every alert, and a list that says which alert works with which exporter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from stoker.monitor.rules import tables
from stoker.monitor.rules.coverage import supports
from stoker.monitor.rules.promql import filler
from stoker.monitor.rules.tables import Alert, Threshold

MARK = "<!-- Made from src/stoker/monitor/rules/tables: change it there. -->"
_NAMED = re.compile(r"\[\[(\w+)")
_COUNTER = re.compile(r"DCGM_\w+")

LinkCause = Callable[[str], str]


def pages(link_cause: LinkCause = lambda cause: f"`{cause}`") -> dict[str, str]:
    """The content of every page by its file's name.

    Args:
        link_cause: Writes a cause of the doctor, as a link where its page is at hand.
    """
    alerts = (*tables.alerts(), *tables.guide_alerts())
    return {"index.md": _index(alerts)} | {f"{alert.page}.md": _page(alert, link_cause) for alert in alerts}


def _page(alert: Alert, link_cause: LinkCause) -> str:
    fill = filler(tables.thresholds(), {})
    lines = [
        MARK,
        f"# {alert.alert}",
        "",
        f"**{alert.title}** · {alert.title_zh}",
        "",
        f"Severity: {alert.severity}. Fires after: {_wait(alert)}."
        + (" Loaded only with `--guides`." if alert.optional else ""),
        "",
        alert.meaning,
        "",
        alert.meaning_zh,
        "",
        "## What to do",
        "",
        *(f"{number}. {step}" for number, step in enumerate(alert.steps, 1)),
        "",
        "## What the doctor knows of it",
        "",
        "`stoker doctor log FILE` tells these causes apart from a log:",
        "",
        *(f"- {link_cause(cause)}" for cause in alert.causes),
        "",
        "## The rule",
        "",
        "```text",
        fill(alert.expr),
        "```",
        "",
        *_figures(alert),
        "It can fire with: " + (", ".join(_exporters_of(alert)) or "nothing") + ".",
        "",
    ]
    return "\n".join(lines)


def _wait(alert: Alert) -> str:
    return "no wait" if alert.wait == "0m" else alert.wait.replace("m", " min")


def _exporters_of(alert: Alert) -> list[str]:
    return [exporter.title for name, exporter in tables.exporters().items() if supports(name, alert)]


def _figures(alert: Alert) -> Iterable[str]:
    used = set(_NAMED.findall(alert.expr))
    used |= {name for row in tables.derived() if row.series in alert.series for name in _NAMED.findall(row.expr)}
    rows = [row for row in tables.thresholds() if row.name in used]
    if not rows:
        return []
    head = ["| Figure | For | Value | Why | Source |", "|---|---|---|---|---|"]
    return [*head, *(_figure(row) for row in rows), ""]


def _figure(row: Threshold) -> str:
    models = (
        f"`{row.model}`".replace("|", "\\|") if row.model else "all other models" if _has_models(row.name) else "all"
    )
    return f"| `{row.name}` | {models} | {row.value:g} {row.unit} | {row.why} | {row.source} |"


def _has_models(name: str) -> bool:
    return any(row.name == name and row.model for row in tables.thresholds())


def _index(alerts: Iterable[Alert]) -> str:
    exporters = tables.exporters()
    lines = [
        MARK,
        "# Alerts",
        "",
        "One set of rules for every exporter. `yes` says that the exporter has what the alert needs if it is set up to",
        "export it: the default counters of dcgm-exporter leave out several, as the table below the alerts says.",
        "Alerts about runs need stoker's exporter, which reads the run folders.",
        "",
        "| Alert | Severity | Says | " + " | ".join(exporters) + " |",
        "|---|---|---|" + "---|" * len(exporters),
    ]
    for alert in alerts:
        marks = " | ".join("yes" if supports(name, alert) else "" for name in exporters)
        name = f"[{alert.alert}]({alert.page}.md)" + (" (guides)" if alert.optional else "")
        lines.append(f"| {name} | {alert.severity} | {alert.title} | {marks} |")
    return "\n".join([*lines, "", *_counters(), ""])


def _counters() -> list[str]:
    """What has to be added to dcgm-exporter's settings, each by its first spelling."""
    rows = [row for row in tables.sources() if "default counters" in row.note]
    gives = {found[0]: row.series for row in rows if (found := _COUNTER.search(row.expr))}
    lines = [
        "## Counters to add to dcgm-exporter",
        "",
        "Without them the series stay empty and the alerts that need them silent. The file of counters is",
        "`/etc/dcgm-exporter/default-counters.csv`; nvidia_gpu_exporter and stoker need no setting.",
        "",
        "| Counter | Gives |",
        "|---|---|",
    ]
    return [*lines, *(f"| `{name}` | `{series}` |" for name, series in gives.items())]
