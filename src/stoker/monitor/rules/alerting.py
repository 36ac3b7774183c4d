"""Alert rules over the common set, with what is said to people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stoker.monitor.rules.promql import Fill
from stoker.monitor.rules.tables import SCOPES, Alert, Scope

SUBJECTS: Mapping[Scope, tuple[str, str]] = {
    "gpu": (
        "GPU {{ $labels.gpu }} ({{ $labels.model }}) of {{ $labels.node }}",
        "{{ $labels.node }} 的 GPU {{ $labels.gpu }}（{{ $labels.model }}）",
    ),
    "run": ("run {{ $labels.run }} on {{ $labels.node }}", "{{ $labels.node }} 上的训练 {{ $labels.run }}"),
    "mount": ("{{ $labels.mount }} of {{ $labels.node }}", "{{ $labels.node }} 的 {{ $labels.mount }}"),
    "node": ("{{ $labels.node }}", "{{ $labels.node }}"),
    "target": ("{{ $labels.job }} at {{ $labels.instance }}", "{{ $labels.instance }} 的 {{ $labels.job }}"),
}
"""How a summary names what an alert is about, in English and Chinese."""


def alert_group(name: str, alerts: Iterable[Alert], fill: Fill, runbooks: str = "") -> dict[str, Any]:
    """A group of alert rules as it stands in a rule file.

    Args:
        name: Of the group.
        alerts: What to watch for.
        fill: Puts the figures in.
        runbooks: Where the runbook pages are reached, such as `https://wiki.example.com/runbooks`; if empty, alerts
            carry the name of the page's file instead of its address.
    """
    return {"name": name, "rules": [_rule(alert, fill, runbooks) for alert in alerts]}


def labels_of(alert: Alert) -> tuple[str, ...]:
    """The labels that tell one such alert from another."""
    return (*SCOPES[alert.scope], *alert.labels)


def _rule(alert: Alert, fill: Fill, runbooks: str) -> dict[str, Any]:
    subject, subject_zh = SUBJECTS[alert.scope]
    page = {"runbook_url": f"{runbooks.rstrip('/')}/{alert.page}.html"} if runbooks else {"runbook": f"{alert.page}.md"}
    return {
        "alert": alert.alert,
        "expr": fill(alert.expr),
        "for": alert.wait,
        "labels": {"severity": alert.severity, "scope": alert.scope},
        "annotations": {
            "summary": f"{alert.title}: {subject}" + (f", {alert.value}" if alert.value else ""),
            "description": alert.meaning,
            "summary_zh": f"{alert.title_zh}：{subject_zh}" + (f"，{alert.value_zh}" if alert.value_zh else ""),
            "description_zh": alert.meaning_zh,
            "causes": ", ".join(alert.causes),
            **page,
        },
    }
