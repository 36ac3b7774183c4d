"""The programs of the stack on one machine: where they are, and how each is called."""

from __future__ import annotations

import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from stoker.errors import Mistake, UserError

Find = Callable[[str], str | None]
"""Where a program is, as `shutil.which` says it."""

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "Prometheus": ("prometheus",),
    "Alertmanager": ("prometheus-alertmanager", "alertmanager"),
    "Grafana": ("grafana-server", "grafana"),
}
"""Names of each program: as Debian's packages call it, and as its makers do."""

LOOPBACK = "127.0.0.1"
GRAFANA_HOMES = ("/usr/share/grafana", "/usr/local/share/grafana", "/opt/grafana")


@dataclass(frozen=True)
class Service:
    """One program to run.

    Attributes:
        url: Where people and programs reach it.
        ready: What to ask until it answers with 200.
        environment: Variables to set beside this process's own.
    """

    name: str
    command: Sequence[str]
    port: int
    url: str
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Plan:
    """What to run and where.

    Attributes:
        folder: Of the rendered files; data and logs lie beside them.
        host: Address to listen at.
        ports: By name of the service.
        exporter: Start stoker's own exporter, too.
        notify_file: For the relay; None if no robot is set.
        keep_days: How long Prometheus keeps samples.
    """

    folder: Path
    host: str
    ports: Mapping[str, int]
    exporter: bool = True
    notify_file: Path | None = None
    keep_days: int = 15


def find_programs(find: Find = shutil.which) -> dict[str, str]:
    """The installed programs by name; Grafana may be missing.

    Raises:
        UserError: Prometheus or Alertmanager is not installed.
    """
    found = {name: path for name, names in PROGRAMS.items() if (path := next(filter(None, map(find, names)), None))}
    missing = [name for name in ("Prometheus", "Alertmanager") if name not in found]
    if missing:
        packages = {"Prometheus": "prometheus", "Alertmanager": "prometheus-alertmanager"}
        raise UserError(
            *(
                f"{name} is not installed: looked for {' and '.join(PROGRAMS[name])} on PATH; "
                f"on Debian and Ubuntu: apt-get install {packages[name]}"
                for name in missing
            )
        )
    return found


def services(plan: Plan, programs: Mapping[str, str]) -> list[Service]:
    """What to start, in this order."""
    started: list[Service] = []
    if plan.exporter:
        started.append(_of_stoker("Exporter", ["serve"], plan, ready="/metrics"))
    if plan.notify_file is not None:
        inside = replace(plan, host=LOOPBACK)  # only Alertmanager beside it is to reach the robots through it
        started.append(_of_stoker("Relay", ["relay", str(plan.notify_file)], inside, ready="/-/ready"))
    started += [_alertmanager(plan, programs["Alertmanager"]), _prometheus(plan, programs["Prometheus"])]
    if "Grafana" in programs:
        started.append(_grafana(plan, programs["Grafana"]))
    return started


def check_ports(planned: Sequence[Service], host: str) -> None:
    """See that every port is free.

    Raises:
        UserError: One or several are in use; says which service wanted them and how to give another.
    """
    mistakes = [
        Mistake(f"port {service.port} of {host} is in use, {service.name} needs it: {_way_out(service)}")
        for service in planned
        if not _is_free(host, service.port)
    ]
    if mistakes:
        raise UserError(*mistakes)


def _way_out(service: Service) -> str:
    other = f"give another with --port {service.name.lower()}=NUMBER"
    if service.name == "Exporter":
        return f"if an exporter runs there already, scrape it with --target 127.0.0.1:{service.port}, or {other}"
    return f"end what listens there, or {other}"


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _of_stoker(name: str, words: list[str], plan: Plan, ready: str) -> Service:
    port, url = _where(plan, name)
    listen = f"{plan.host}:{port}"
    return Service(
        name, [sys.executable, "-m", "stoker", "monitor", *words, "--listen", listen], port, url, url + ready
    )


def _alertmanager(plan: Plan, program: str) -> Service:
    port, url = _where(plan, "Alertmanager")
    command = [
        program,
        f"--config.file={plan.folder / 'alertmanager' / 'alertmanager.yml'}",
        f"--storage.path={plan.folder / 'data' / 'alertmanager'}",
        f"--web.listen-address={plan.host}:{port}",
        "--cluster.listen-address=",  # alone: it would open a second port for its peers
    ]
    return Service("Alertmanager", command, port, url, f"{url}/-/ready")


def _prometheus(plan: Plan, program: str) -> Service:
    port, url = _where(plan, "Prometheus")
    command = [
        program,
        f"--config.file={plan.folder / 'prometheus' / 'prometheus.yml'}",
        f"--storage.tsdb.path={plan.folder / 'data' / 'prometheus'}",
        f"--storage.tsdb.retention.time={plan.keep_days}d",
        f"--web.listen-address={plan.host}:{port}",
    ]
    return Service("Prometheus", command, port, url, f"{url}/-/ready")


def _grafana(plan: Plan, program: str) -> Service:
    port, url = _where(plan, "Grafana")
    words = ["server"] if Path(program).name == "grafana" else []
    home = next((path for path in GRAFANA_HOMES if Path(path).is_dir()), GRAFANA_HOMES[0])
    environment = {
        "GF_PATHS_DATA": str(plan.folder / "data" / "grafana"),
        "GF_PATHS_PROVISIONING": str(plan.folder / "grafana" / "provisioning"),
        "GF_SERVER_HTTP_ADDR": plan.host,
        "GF_SERVER_HTTP_PORT": str(port),
        "GF_ANALYTICS_REPORTING_ENABLED": "false",
        "GF_ANALYTICS_CHECK_FOR_UPDATES": "false",
        "STOKER_DASHBOARDS": str(plan.folder / "grafana" / "dashboards"),
    }
    return Service("Grafana", [program, *words, f"--homepath={home}"], port, url, f"{url}/api/health", environment)


def _where(plan: Plan, name: str) -> tuple[int, str]:
    port = plan.ports[name.lower()]
    host = f"[{plan.host}]" if ":" in plan.host else plan.host
    return port, f"http://{host}:{port}"
