"""The dashboards in the package are those that are written down, and ask only for the common set."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

from stoker.monitor.dashboards import dashboard_files
from stoker.monitor.rules import tables

RECORDED = {row.series for row in tables.series()} | {row.series for row in tables.derived()}
PANELS = [
    (name, panel)
    for name, text in dashboard_files().items()
    for panel in json.loads(text)["panels"]
    if panel["type"] != "row"
]


@pytest.mark.skipif(
    importlib.util.find_spec("grafana_foundation_sdk") is None,
    reason="grafana-foundation-sdk is not installed: pip install 'stoker[dashboards]'",
)
def test_they_are_up_to_date() -> None:
    from stoker.monitor.dashboards.build import outputs

    assert dashboard_files() == outputs(), "run: python -m stoker.monitor.dashboards.build"


def test_the_five_dashboards() -> None:
    found = {name: json.loads(text) for name, text in dashboard_files().items()}
    assert set(found) == {f"stoker-{name}.json" for name in ("fleet", "node", "gpu", "run", "runs")}
    assert {f"{one['uid']}.json" for one in found.values()} == set(found)


@pytest.mark.parametrize(("name", "panel"), PANELS, ids=[f"{name}: {panel['title']}" for name, panel in PANELS])
def test_panel(name: str, panel: dict[str, object]) -> None:
    targets = panel["targets"]
    assert isinstance(targets, list)
    for target in targets:
        named = set(re.findall(r"\b(?:gpu|run|host|stoker|DCGM|nvidia)[:_]\w+", target["expr"]))
        assert named <= RECORDED
        assert named or "ALERTS" in target["expr"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "$datasource"}


@pytest.mark.parametrize("text", dashboard_files().values(), ids=dashboard_files())
def test_panels_have_numbers_of_their_own_and_do_not_lie_on_each_other(text: str) -> None:
    panels = json.loads(text)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert place["x"] + place["w"] <= 24
        taken |= cells
