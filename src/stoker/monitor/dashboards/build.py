"""Makes Grafana's JSON from `dashboards.yaml`: `python -m stoker.monitor.dashboards.build`.

Needs grafana-foundation-sdk, of the extra `dashboards`; what it makes is part of the package, so users need neither.
A test says so if this was forgotten after a change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import yaml
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard, prometheus, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import prometheus as prometheus_models

HERE = Path(__file__).parent
SOURCE = models.DataSourceRef(type_val="prometheus", uid="$datasource")
TAG = "stoker"
SOFT_FILL = 8
PLAIN_HEIGHT = {"stat": 4, "time": 8, "states": 8, "table": 8}


def outputs() -> dict[str, str]:
    """The files to be written, by name."""
    described = yaml.safe_load((HERE / "dashboards.yaml").read_text(encoding="utf-8"))
    return {
        f"{one['uid']}.json": json.dumps(_dashboard(one).build(), cls=JSONEncoder, indent=1, sort_keys=True) + "\n"
        for one in described
    }


def _dashboard(described: Mapping[str, Any]) -> dashboard.Dashboard:
    made = (
        dashboard.Dashboard(described["title"])
        .uid(described["uid"])
        .description(described["description"])
        .tags([TAG])
        .time("now-1h", "now")
        .refresh("15s")
        .timezone("browser")
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .link(_other_dashboards())
        .with_variable(dashboard.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    for name, offered in described["variables"].items():
        made.with_variable(_variable(name, offered))
    numbers = count(1)
    for row in described["rows"]:
        made.with_row(dashboard.Row(row["title"]).id(next(numbers)))
        for panel in row["panels"]:
            made.with_panel(_panel(panel).id(next(numbers)))
    return made


def _other_dashboards() -> dashboard.DashboardLink:
    link = dashboard.DashboardLink("stoker").type(models.DashboardLinkType.DASHBOARDS).tags([TAG])
    return link.keep_time(True).include_vars(True).as_dropdown(True)


def _variable(name: str, offered: Mapping[str, Any]) -> dashboard.QueryVariable:
    many = bool(offered.get("many"))
    made = (
        dashboard.QueryVariable(name)
        .label(name)
        .datasource(SOURCE)
        .query(f"label_values({offered['series']}, {offered['label']})")
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
        .multi(many)
        .include_all(many)
    )
    return made.current(models.VariableOption(selected=True, text="All", value="$__all")) if many else made


def _panel(described: Mapping[str, Any]) -> Any:
    kind = described["kind"]
    made = {"time": _lines, "stat": _present, "states": _states, "table": _table}[kind](described)
    made.title(described["title"]).datasource(SOURCE)
    made.span(described["width"]).height(described.get("height", PLAIN_HEIGHT[kind]))
    if "description" in described:
        made.description(described["description"])
    if "unit" in described:
        made.unit(described["unit"])
    if described.get("unit") == "percentunit" and kind != "table":
        made.min(0).max(1)
    for query in _queries(described):
        made.with_target(query)
    return made


def _queries(described: Mapping[str, Any]) -> Iterator[prometheus.Dataquery]:
    for number, (legend, expr) in enumerate(described["queries"].items()):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id(chr(ord("A") + number))
        if described["kind"] == "table":
            query.instant().format(prometheus_models.PromQueryFormat.TABLE)
        elif described["kind"] == "stat":
            query.instant()
        else:
            query.range()
        yield query


def _lines(_described: Mapping[str, Any]) -> timeseries.Panel:
    return (
        timeseries.Panel()
        .fill_opacity(SOFT_FILL)
        .show_points(common.VisibilityMode.NEVER)
        .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    )


def _present(described: Mapping[str, Any]) -> stat.Panel:
    made = stat.Panel()
    if "alarm" in described:
        steps = [models.Threshold(value=None, color="green"), models.Threshold(value=described["alarm"], color="red")]
        made.thresholds(dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps))
    return made


def _states(_described: Mapping[str, Any]) -> statetimeline.Panel:
    return statetimeline.Panel().show_value(common.VisibilityMode.NEVER).fill_opacity(70)


def _table(described: Mapping[str, Any]) -> table.Panel:
    """One row per thing: the queries' tables joined on the labels that they share."""
    names = list(described["queries"])
    columns = (
        {"Value": names[0]} if len(names) == 1 else {f"Value #{chr(65 + n)}": name for n, name in enumerate(names)}
    )
    hidden = dict.fromkeys(described["hidden"], True)
    return (
        table.Panel()
        .with_transformation(models.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(
            models.DataTransformerConfig(
                id_val="organize", options={"excludeByName": hidden, "renameByName": columns, "indexByName": {}}
            )
        )
    )


def main() -> None:
    """Write the dashboards into the package."""
    folder = HERE / "json"
    folder.mkdir(exist_ok=True)
    wanted = outputs()
    for old in set(folder.glob("*.json")) - {folder / name for name in wanted}:
        old.unlink()
    for name, content in wanted.items():
        (folder / name).write_text(content, encoding="utf-8")
        sys.stdout.write(f"{folder / name}: {len(content)} characters\n")


if __name__ == "__main__":
    main()
