"""Every file of the stack, as text by its path."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoker.errors import UserError
from stoker.monitor.dashboards import dashboard_files
from stoker.monitor.notify.alertmanager import alertmanager_config
from stoker.monitor.notify.settings import Notify
from stoker.monitor.rules.files import GUIDES_FILE, rule_files
from stoker.monitor.rules.runbook import pages
from stoker.monitor.yaml_text import as_yaml

EXPORTERS: Mapping[str, int] = {"stoker": 9836, "dcgm": 9400, "nvidia": 9835, "node": 9100}
"""The exporters that can be scraped, and the port of each where none is given."""

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MADE = "# Made by `stoker monitor render`.\n"


@dataclass(frozen=True)
class Target:
    """An exporter to scrape."""

    exporter: str
    address: str


@dataclass(frozen=True)
class Stack:
    """What the files are made for.

    Attributes:
        targets: What Prometheus scrapes.
        notify: Who is told.
        thresholds: Figures of the alerts to change, by name.
        guides: Load the plain thresholds of the guides too.
        prometheus: Address at which Grafana reaches Prometheus.
        alertmanager: Host and port at which Prometheus reaches Alertmanager.
        scrape_seconds: Between two scrapes, and between two looks at the rules.
        quick: Let Alertmanager wait for a second in place of minutes.
    """

    targets: Sequence[Target]
    notify: Notify = field(default_factory=Notify)
    thresholds: Mapping[str, float] = field(default_factory=dict[str, float])
    guides: bool = False
    prometheus: str = "http://127.0.0.1:9090"
    alertmanager: str = "127.0.0.1:9093"
    scrape_seconds: int = 15
    quick: bool = False


def read_target(text: str) -> Target:
    """A target from `EXPORTER=HOST[:PORT]`, or `HOST[:PORT]` for stoker's own.

    >>> read_target("dcgm=gpu-1")
    Target(exporter='dcgm', address='gpu-1:9400')

    Raises:
        UserError: The exporter is unknown or the address is none.
    """
    exporter, equals, address = text.rpartition("=")
    exporter = exporter if equals else "stoker"
    if exporter not in EXPORTERS:
        raise UserError(f"unknown exporter {exporter!r} in {text!r}: use one of {', '.join(EXPORTERS)}")
    host, colon, port = address.rpartition(":") if not address.endswith("]") else (address, "", "")
    if not colon:
        host, port = address, str(EXPORTERS[exporter])
    if not host or "/" in host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"{text!r} is no target: write EXPORTER=HOST:PORT, such as dcgm=gpu-1:9400")
    return Target(exporter, f"{host}:{port}")


def stack_files(stack: Stack) -> dict[str, str]:
    """The content of every file, by its path below the folder."""
    rules = rule_files(stack.thresholds, stack.notify.runbooks)
    loaded = [f"rules/{name}" for name in rules if stack.guides or name != GUIDES_FILE]
    files = {
        "prometheus/prometheus.yml": MADE + as_yaml(_prometheus(stack, loaded)),
        "alertmanager/alertmanager.yml": alertmanager_config(stack.notify, quick=stack.quick),
        "grafana/provisioning/datasources/stoker.yml": MADE + as_yaml(_datasource(stack)),
        "grafana/provisioning/dashboards/stoker.yml": MADE + as_yaml(_provider()),
    }
    files |= {f"prometheus/rules/{name}": text for name, text in rules.items()}
    files |= {f"grafana/dashboards/{name}": text for name, text in dashboard_files().items()}
    files |= {f"runbooks/{name}": text for name, text in pages().items()}
    return files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write all files, each aside first and then renamed: a server that reads them never sees half of one.

    Raises:
        UserError: The folder cannot be written to.
    """
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            aside = path.with_name(f".{path.name}.{os.getpid()}")
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)
    except OSError as error:
        raise UserError(f"cannot write to {error.filename or folder}: {error.strerror}") from error


def _prometheus(stack: Stack, rules: list[str]) -> dict[str, Any]:
    every = f"{stack.scrape_seconds}s"
    by_exporter: dict[str, list[str]] = {}
    for target in stack.targets:
        by_exporter.setdefault(target.exporter, []).append(target.address)
    return {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
        "rule_files": rules,
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [stack.alertmanager]}]}]},
        "scrape_configs": [
            {"job_name": exporter, "static_configs": [_static(address) for address in addresses]}
            for exporter, addresses in by_exporter.items()
        ],
    }


def _static(address: str) -> dict[str, Any]:
    """A target; one on this machine is called by the machine's name, since `127.0.0.1` names none."""
    here = address.rpartition(":")[0] in LOOPBACK
    return {"targets": [address]} | ({"labels": {"node": socket.gethostname()}} if here else {})


def _datasource(stack: Stack) -> dict[str, Any]:
    source = {
        "name": "Prometheus",
        "type": "prometheus",
        "access": "proxy",
        "url": stack.prometheus,
        "isDefault": True,
        "jsonData": {"timeInterval": f"{stack.scrape_seconds}s"},
    }
    return {"apiVersion": 1, "datasources": [source]}


def _provider() -> dict[str, Any]:
    """Grafana takes the folder from its environment: `up` sets it, an existing stack sets its own."""
    provider = {
        "name": "stoker",
        "folder": "stoker",
        "type": "file",
        "options": {"path": "$STOKER_DASHBOARDS"},
    }
    return {"apiVersion": 1, "providers": [provider]}
