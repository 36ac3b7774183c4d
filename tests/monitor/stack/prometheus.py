"""Asks a running Prometheus what the dashboards would ask."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode
from urllib.request import urlopen

from stoker.monitor.dashboards import dashboard_files


class Query(NamedTuple):
    """One query of one panel, with values in place of its variables."""

    dashboard: str
    panel: str
    expr: str


def dashboard_queries(**values: str) -> Iterator[Query]:
    """Every query of every dashboard."""
    for dashboard, text in dashboard_files().items():
        for panel in json.loads(text)["panels"]:
            for target in panel.get("targets", ()):
                expr = target["expr"]
                for name, value in values.items():
                    expr = expr.replace(f"${name}", value)
                yield Query(dashboard, panel["title"], expr)


def ask(url: str, expr: str) -> list[Any]:
    """The samples that an instant query gives."""
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': expr})}", timeout=5) as answer:
        return json.load(answer)["data"]["result"]
