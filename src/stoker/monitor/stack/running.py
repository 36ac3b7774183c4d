"""Starts the programs of the stack, waits until they answer, and ends them all."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from urllib.error import URLError
from urllib.request import urlopen

from stoker.errors import RunError
from stoker.monitor.stack.services import Service

SECONDS_TO_START = 60.0
SECONDS_TO_END = 15.0
LINES_SHOWN = 8

Say = Callable[[str], None]


class RunningStack:
    """The programs while they run; leaving the `with` ends them, the last one started first."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._logs, self._say = folder / "logs", say
        self._running: list[tuple[Service, subprocess.Popen[bytes]]] = []

    def __enter__(self) -> RunningStack:
        self._logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def start(self, planned: Sequence[Service], stop: threading.Event) -> None:
        """Start all, then wait for each to answer.

        Raises:
            RunError: One ended or did not answer in time; the end of its log is told.
        """
        for service in planned:
            with self._log(service).open("wb") as log:
                process = subprocess.Popen(
                    service.command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | dict(service.environment),
                    start_new_session=True,  # Ctrl-C in the terminal is for this process, which ends them in order
                )
            self._running.append((service, process))
        for service, process in self._running:
            self._await(service, process, stop)

    def watch(self, stop: threading.Event) -> None:
        """Wait until asked to stop.

        Raises:
            RunError: A program ended by itself.
        """
        while not stop.wait(0.5):
            for service, process in self._running:
                if process.poll() is not None:
                    raise RunError(f"{service.name} ended by itself with {process.returncode}: {self._tail(service)}")

    def end(self) -> None:
        """Ask all to end, and make those end that do not."""
        for service, process in reversed(self._running):
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(SECONDS_TO_END)
            except subprocess.TimeoutExpired:
                self._say(f"{service.name} does not end within {SECONDS_TO_END:.0f} s: killed")
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._running.clear()

    def _await(self, service: Service, process: subprocess.Popen[bytes], stop: threading.Event) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while not _answers(service.ready):
            if process.poll() is not None:
                raise RunError(f"{service.name} ended with {process.returncode} at its start: {self._tail(service)}")
            if time.monotonic() > deadline:
                raise RunError(
                    f"{service.name} does not answer at {service.ready} within {SECONDS_TO_START:.0f} s: "
                    f"{self._tail(service)}"
                )
            if stop.wait(0.1):
                return

    def _log(self, service: Service) -> Path:
        return self._logs / f"{service.name.lower()}.log"

    def _tail(self, service: Service) -> str:
        path = self._log(service)
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES_SHOWN:]
        return "\n  ".join([f"its log, {path}, ends with", *lines]) if lines else f"its log, {path}, is empty"


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False
