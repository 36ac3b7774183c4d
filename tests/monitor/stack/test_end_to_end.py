"""From the driver to the message: simulated NVML, stoker's exporter, Prometheus, Alertmanager, a webhook."""

from __future__ import annotations

import re
import shutil
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.monitor.notify.settings import Notify
from stoker.monitor.stack.render import Stack, read_target, stack_files, write_files
from stoker.monitor.stack.running import RunningStack
from stoker.monitor.stack.services import PROGRAMS, Plan, find_programs, services
from tests.monitor.stack.endpoint import Webhook, serving, until
from tests.monitor.stack.prometheus import ask, dashboard_queries
from tests.monitor.stack.test_live import free_ports
from tests.nvml_sim import Scenario

NEEDED = ("Prometheus", "Alertmanager")
MISSING = [name for name in NEEDED if not any(map(shutil.which, PROGRAMS[name]))]
ALERTS = "prometheus/rules/stoker-alerts.yml"


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed: scripts/services installs it")
def test_a_change_in_the_driver_reaches_the_webhook(simulated: Callable[..., Scenario], tmp_path: Path) -> None:
    scenario = simulated("h100", 8)
    ports = free_ports(("exporter", "alertmanager", "prometheus"))
    with serving(Webhook()) as webhook:
        stack = Stack(
            targets=[read_target(f"stoker=127.0.0.1:{ports['exporter']}")],
            notify=Notify(webhooks=[webhook.url]),
            alertmanager=f"127.0.0.1:{ports['alertmanager']}",
            scrape_seconds=1,
            quick=True,
        )
        files = stack_files(stack)
        files[ALERTS] = re.sub(r"for: \d+m", "for: 0s", files[ALERTS])
        write_files(tmp_path, files)
        programs = {name: path for name, path in find_programs().items() if name in NEEDED}
        exporter, *others = services(Plan(folder=tmp_path, host="127.0.0.1", ports=ports), programs)
        often = replace(exporter, command=[*exporter.command, "--interval", "0.5", "--slow-interval", "0.5"])
        with RunningStack(tmp_path, print) as running:
            running.start([often, *others], threading.Event())
            where = f"of {socket.gethostname()}"

            scenario.gpus[2].values["temperature_margin"] = "3"
            scenario.write()
            hot = until(lambda: webhook.alerts().get("GpuThermalMarginLow"), 20)
            assert hot["annotations"]["summary"].endswith(f"GPU 2 (NVIDIA H100 80GB HBM3) {where}, 3 degrees left")

            scenario.gpus[5].values["nvlink_state.7"] = "0"
            scenario.write()
            down = until(lambda: webhook.alerts().get("GpuNvlinkDown"), 20)
            assert (
                down["annotations"]["summary"] == f"NVLinks are down: GPU 5 (NVIDIA H100 80GB HBM3) {where}, 1 of them"
            )

            scenario.gpus[6].lines = [("xid", "79")]
            scenario.write()
            xid = until(lambda: webhook.alerts().get("GpuXidFatal"), 20)
            assert (xid["labels"]["gpu"], xid["labels"]["xid"]) == ("6", "79")

            asked = [
                query for query in dashboard_queries(node=socket.gethostname(), gpu="6") if "$run" not in query.expr
            ]
            assert len(asked) > 40
            until(lambda: [query for query in asked if not ask(others[1].url, query.expr)] == [], 20)

            scenario.gpus[6].values["lost"] = "1"
            scenario.write()
            lost = until(lambda: webhook.alerts().get("GpuLost"), 20)
            assert (lost["labels"]["gpu"], lost["labels"]["uuid"]) == ("6", scenario.gpus[6].values["uuid"])
            assert {alert["labels"]["gpu"] for alert in webhook.every("GpuLost")} == {"6"}
