"""`stoker monitor up`: the stack on one machine, from the wish to the last process ended."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stoker.monitor.notify.settings import Notify
from stoker.monitor.stack.render import Stack, read_target, stack_files, write_files
from stoker.monitor.stack.running import RunningStack, Say
from stoker.monitor.stack.services import LOOPBACK, Plan, check_ports, find_programs, services


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line.

    Attributes:
        targets: What to scrape; stoker's own exporter is started if there are none.
        ports: By name of the service, all of them.
    """

    folder: Path
    targets: Sequence[str]
    notify: Notify
    notify_file: Path | None
    thresholds: Mapping[str, float]
    guides: bool
    host: str
    ports: Mapping[str, int]
    keep_days: int


def run(wanted: Wanted, say: Say) -> None:
    """Write the files, start all, tell where each listens, and wait for Ctrl-C or SIGTERM.

    Raises:
        UserError: A program is not installed, a port is in use, or a setting is wrong; nothing was started.
        RunError: A program ended by itself or does not answer; the others were ended.
    """
    programs = find_programs()
    folder = wanted.folder.resolve()
    robots = bool(wanted.notify.robots())
    plan = Plan(
        folder=folder,
        host=wanted.host,
        ports=wanted.ports,
        exporter=not wanted.targets,
        notify_file=wanted.notify_file.resolve() if wanted.notify_file is not None and robots else None,
        keep_days=wanted.keep_days,
    )
    planned = services(plan, programs)
    check_ports(planned, wanted.host)
    write_files(folder, stack_files(_stack(wanted)))
    with _stopped_by_signals() as stop, RunningStack(folder, say) as stack:
        stack.start(planned, stop)
        if not stop.is_set():
            for service in planned:
                say(f"{service.name:<13} {service.url}")
            if "Grafana" not in programs:
                say("Grafana       not installed; its dashboards and provisioning are in " + str(folder / "grafana"))
            say("Ctrl-C ends all.")
            stack.watch(stop)
    say("ended")


def _stack(wanted: Wanted) -> Stack:
    host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    reached = "127.0.0.1" if host == "0.0.0.0" else host
    targets = wanted.targets or [f"stoker={reached}:{wanted.ports['exporter']}"]
    return Stack(
        targets=[read_target(target) for target in targets],
        notify=wanted.notify.model_copy(update={"relay": f"http://{LOOPBACK}:{wanted.ports['relay']}"}),
        thresholds=wanted.thresholds,
        guides=wanted.guides,
        prometheus=f"http://{reached}:{wanted.ports['prometheus']}",
        alertmanager=f"{reached}:{wanted.ports['alertmanager']}",
    )


@contextmanager
def _stopped_by_signals() -> Generator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set; what handled them before does so again afterwards."""
    stop = threading.Event()

    def ask_to_stop(_number: int, _frame: object) -> None:
        stop.set()

    before = {number: signal.signal(number, ask_to_stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
