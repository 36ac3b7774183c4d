"""A real Prometheus and a real Alertmanager with the generated files, fed by a simulated scrape target."""

from __future__ import annotations

import json
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.request import urlopen

import pytest

from stoker.monitor.dashboards import dashboard_files
from stoker.monitor.notify.settings import Notify
from stoker.monitor.stack.render import Stack, read_target, stack_files, write_files
from stoker.monitor.stack.running import RunningStack
from stoker.monitor.stack.services import PROGRAMS, Plan, check_ports, find_programs, services
from tests.monitor.stack.endpoint import GPU, RUN, Endpoint, Webhook, serving, until
from tests.monitor.stack.prometheus import ask, dashboard_queries

NEEDED = ("Prometheus", "Alertmanager")
MISSING = [name for name in NEEDED if not any(map(shutil.which, PROGRAMS[name]))]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: scripts/services installs it"),
]


class Live(NamedTuple):
    """The stack while it runs."""

    endpoint: Endpoint
    webhook: Webhook
    prometheus: str
    alertmanager: str

    def query(self, expr: str) -> list[Any]:
        return ask(self.prometheus, expr)

    def alerts(self) -> list[Any]:
        with urlopen(f"{self.alertmanager}/api/v2/alerts", timeout=5) as answer:
            return json.load(answer)


def free_ports(names: tuple[str, ...]) -> dict[str, int]:
    """Ports that nobody listens at, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in names]
    ports = {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    folder = tmp_path_factory.mktemp("stack")
    ports = free_ports(("alertmanager", "prometheus"))
    with serving(Endpoint()) as endpoint, serving(Webhook()) as webhook:
        stack = Stack(
            targets=[read_target(f"stoker={endpoint.address}")],
            notify=Notify(webhooks=[webhook.url]),
            alertmanager=f"127.0.0.1:{ports['alertmanager']}",
            scrape_seconds=1,
            quick=True,
        )
        files = stack_files(stack)
        alerts = "prometheus/rules/stoker-alerts.yml"
        files[alerts] = re.sub(r"for: \d+m", "for: 0s", files[alerts])  # the waits are promtool's to test
        write_files(folder, files)
        programs = {name: path for name, path in find_programs().items() if name in NEEDED}
        planned = services(Plan(folder=folder, host="127.0.0.1", ports=ports, exporter=False), programs)
        check_ports(planned, "127.0.0.1")
        with RunningStack(folder, print) as running:
            running.start(planned, threading.Event())
            found = Live(endpoint, webhook, planned[1].url, planned[0].url)
            until(lambda: found.query("gpu:thermal_headroom_celsius"), 20)
            yield found
        for service in planned:  # ended, and the ports free again
            check_ports([service], "127.0.0.1")


def test_a_change_of_the_scenario_reaches_the_webhook(live: Live) -> None:
    thermal = f"stoker_gpu_temperature_margin_celsius{{{GPU.format(n=1)}}}"
    lost = f"stoker_gpu_lost{{{GPU.format(n=1)}}}"
    assert "GpuThermalMarginLow" not in live.webhook.alerts()
    live.endpoint.changed[thermal] = 2
    began = time.monotonic()
    hot = until(lambda: live.webhook.alerts().get("GpuThermalMarginLow"), 20)
    assert time.monotonic() - began < 20
    node = socket.gethostname()
    assert hot["labels"] | {"job": "", "instance": ""} == {
        "alertname": "GpuThermalMarginLow", "severity": "warning", "scope": "gpu", "node": node, "gpu": "1",
        "uuid": "GPU-00000001", "model": "NVIDIA A100-SXM4-80GB", "job": "", "instance": "",
    }  # fmt: skip
    where = f"GPU 1 (NVIDIA A100-SXM4-80GB) of {node}"
    assert hot["annotations"]["summary"] == (
        f"Close to the temperature at which the GPU slows down: {where}, 2 degrees left"
    )
    assert hot["annotations"]["summary_zh"] == (
        f"温度接近降频阈值：{node} 的 GPU 1（NVIDIA A100-SXM4-80GB），剩余 2 度"
    )

    live.endpoint.changed[lost] = 1
    gone = until(lambda: live.webhook.alerts().get("GpuLost"), 20)
    assert gone["annotations"]["summary"] == f"A GPU is lost: {where}"
    assert gone["annotations"]["runbook"] == "gpu-lost.md"

    def silenced() -> bool:
        states = {one["labels"]["alertname"]: one["status"] for one in live.alerts()}
        return bool(states["GpuThermalMarginLow"]["inhibitedBy"]) and not states["GpuLost"]["inhibitedBy"]

    until(silenced, 10)
    live.endpoint.changed.clear()
    until(lambda: "GpuLost" in live.webhook.alerts("resolved"), 30)


def test_every_query_of_every_dashboard_returns_data(live: Live) -> None:
    live.endpoint.changed[f"stoker_gpu_power_limit_watts{{{GPU.format(n=0)}}}"] = 300  # so that an alert is shown
    until(lambda: live.query('ALERTS{alertname="GpuPowerCapLowered", alertstate="firing"}'), 20)
    until(lambda: live.query("gpu:nvlink_receive_bytes_per_second"), 20)
    queries = list(dashboard_queries(node=socket.gethostname(), gpu="0", run="digits"))
    assert len(queries) > 60
    assert "$" not in "".join(query.expr for query in queries)
    assert [query for query in queries if not live.query(query.expr)] == []
    live.endpoint.changed.clear()


def test_the_variables_of_every_dashboard_offer_values(live: Live) -> None:
    for text in dashboard_files().values():
        for variable in json.loads(text)["templating"]["list"]:
            if variable["type"] == "query":
                series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]).groups()
                found = live.query(series.replace("$node", socket.gethostname()))
                assert {one["metric"][label] for one in found}, variable


def test_a_run_that_stands_still_is_told_by_its_name(live: Live) -> None:
    live.endpoint.changed[f"stoker_run_since_step_seconds{{{RUN}}}"] = 600
    told = until(lambda: live.webhook.alerts().get("RunStalled"), 20)
    assert told["annotations"]["summary"] == (
        f"A run makes no steps: run digits on {socket.gethostname()}, the last one ended 10m 0s ago"
    )
    live.endpoint.changed.clear()


def test_prometheus_takes_every_rule(live: Live) -> None:
    with urlopen(f"{live.prometheus}/api/v1/rules", timeout=5) as answer:
        rules = [rule for group in json.load(answer)["data"]["groups"] for rule in group["rules"]]
    assert len(rules) > 80
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []
