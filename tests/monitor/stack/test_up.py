"""`stoker monitor up` as a person runs it: what it says, and that nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.monitor.stack.services import PROGRAMS, Plan, check_ports, find_programs, services
from tests.monitor.stack.endpoint import Endpoint, serving, until
from tests.monitor.stack.test_live import free_ports

NEEDED = ("Prometheus", "Alertmanager")
MISSING = [name for name in NEEDED if not any(map(shutil.which, PROGRAMS[name]))]
needs_programs = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} not installed: scripts/services installs it"
)
PORTS = {"exporter": 9836, "relay": 9837, "alertmanager": 9093, "prometheus": 9090, "grafana": 3000}
ROBOT = "wecom: {url: 'http://127.0.0.1:9/robot'}\n"


def up(folder: Path, *words: str, path: str = os.environ["PATH"]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stoker", "monitor", "up", "--dir", str(folder), *words]
    environment = os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def said_by(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


@pytest.mark.slow
@needs_programs
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_where_all_listen_and_ends_them(number: signal.Signals, tmp_path: Path) -> None:
    ports = free_ports(("alertmanager", "prometheus", "relay", "grafana"))
    (tmp_path / "notify.yaml").write_text(ROBOT)
    chosen = [word for name, port in ports.items() for word in ("--port", f"{name}={port}")]
    with serving(Endpoint()) as endpoint:
        words = ("--target", endpoint.address, "--notify", str(tmp_path / "notify.yaml"), *chosen)
        process = up(tmp_path / "stack", *words)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines == [
            f"Relay         http://127.0.0.1:{ports['relay']}\n",
            f"Alertmanager  http://127.0.0.1:{ports['alertmanager']}\n",
            f"Prometheus    http://127.0.0.1:{ports['prometheus']}\n",
        ]
        until(lambda: "Ctrl-C" in process.stdout.readline(), 10)
        process.send_signal(number)
        code, out, err = said_by(process)
    assert (code, out, err) == (0, "ended\n", "")
    for port in ports.values():
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0, "something still listens"


@pytest.mark.slow
@needs_programs
def test_a_program_that_dies_is_told_with_its_log(tmp_path: Path) -> None:
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "prometheus").write_text("#!/bin/sh\necho no space left on device\nexit 3\n")
    (fake / "prometheus").chmod(0o755)
    ports = free_ports(("alertmanager", "prometheus"))
    chosen = [word for name, port in ports.items() for word in ("--port", f"{name}={port}")]
    process = up(tmp_path / "stack", "-t", "127.0.0.1:1", *chosen, path=f"{fake}:{os.environ['PATH']}")
    code, _, err = said_by(process)
    assert code == 1
    assert "Prometheus ended with 3 at its start" in err
    assert "no space left on device" in err
    assert "Traceback" not in err
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", ports["alertmanager"])) != 0, "Alertmanager was left behind"


def test_a_missing_program_is_told_with_its_package(tmp_path: Path) -> None:
    code, _, err = said_by(up(tmp_path / "stack", "-t", "127.0.0.1:1", path=str(tmp_path)))
    assert code == 2
    assert "Prometheus is not installed: looked for prometheus on PATH" in err
    assert "apt-get install prometheus-alertmanager" in err
    assert not (tmp_path / "stack").exists(), "nothing is written before all is known to work"


@needs_programs
def test_ports_in_use_are_told_all_at_once(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        first, second = one.getsockname()[1], two.getsockname()[1]
        words = ("-t", "127.0.0.1:1", "--port", f"prometheus={first}", "--port", f"alertmanager={second}")
        code, _, err = said_by(up(tmp_path / "stack", *words))
    assert code == 2
    assert f"port {first} of 127.0.0.1 is in use, Prometheus needs it" in err
    assert f"port {second} of 127.0.0.1 is in use, Alertmanager needs it" in err
    assert "--port prometheus=NUMBER" in err


def test_debian_s_and_the_makers_names_are_found() -> None:
    debian = {"prometheus": "/usr/bin/prometheus", "prometheus-alertmanager": "/usr/bin/prometheus-alertmanager"}
    makers = {
        "prometheus": "/opt/prometheus",
        "alertmanager": "/opt/alertmanager",
        "grafana": "/opt/grafana/bin/grafana",
    }
    assert find_programs(debian.get) == {
        "Prometheus": "/usr/bin/prometheus",
        "Alertmanager": "/usr/bin/prometheus-alertmanager",
    }
    assert set(find_programs(makers.get)) == {"Prometheus", "Alertmanager", "Grafana"}
    with pytest.raises(UserError) as caught:
        find_programs({}.get)
    assert len(caught.value.mistakes) == 2


def test_what_is_started_and_in_which_order(tmp_path: Path) -> None:
    programs = {"Prometheus": "/p", "Alertmanager": "/a", "Grafana": "/usr/sbin/grafana-server"}
    plan = Plan(folder=tmp_path, host="::1", ports=PORTS, notify_file=tmp_path / "notify.yaml")
    planned = services(plan, programs)
    assert [service.name for service in planned] == ["Exporter", "Relay", "Alertmanager", "Prometheus", "Grafana"]
    assert [service.url for service in planned][-1] == "http://[::1]:3000"
    assert planned[1].url == "http://127.0.0.1:9837", "nobody else is to reach the robots"
    grafana = planned[-1]
    assert grafana.command == ["/usr/sbin/grafana-server", "--homepath=/usr/share/grafana"]
    assert grafana.environment["STOKER_DASHBOARDS"] == str(tmp_path / "grafana" / "dashboards")
    assert [service.name for service in services(Plan(tmp_path, "127.0.0.1", PORTS, exporter=False), programs)] == [
        "Alertmanager", "Prometheus", "Grafana",
    ]  # fmt: skip


def test_a_free_port_is_free() -> None:
    ports = free_ports(("exporter", "alertmanager", "prometheus"))
    planned = services(Plan(Path("/x"), "127.0.0.1", PORTS | ports), {"Prometheus": "p", "Alertmanager": "a"})
    check_ports(planned, "127.0.0.1")
