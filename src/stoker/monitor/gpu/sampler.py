"""The parent's side: starts the process that asks the driver, keeps what it says, and never waits for it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.model import Gpu, typed_fields
from stoker.monitor.processes import describe

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds before a process that ended is started again; doubled each time it ends at once."""


@dataclass
class _Known:
    """A GPU that was seen. `identity` and `values` are fields of `Gpu`."""

    identity: dict[str, Any]
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    sampled: float | None = None
    duration: float | None = None
    lost: bool = False
    blocked: bool = False
    error: str = ""
    xid_errors: dict[str, float] = field(default_factory=dict[str, float])
    xid_last_time: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class DriverState:
    """How the driver's library stands.

    Attributes:
        up: It answers.
        error: Why not, in a sentence.
        restarts: How often the process died and was started again.
    """

    up: bool = False
    error: str = "the driver has not answered yet"
    version: str = ""
    nvml_version: str = ""
    restarts: int = 0


class GpuSampler:
    """What the GPUs said last. All methods return at once.

    Args:
        intervals: How often to ask, and how long an answer may take.

    Attributes:
        news: Set whenever a GPU or the driver said something; who waits for it clears it.
    """

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self.news = threading.Event()
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._driver = DriverState()
        self._heard = time.monotonic()
        self._pause = FIRST_PAUSE
        self._stopped = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin to ask."""
        threading.Thread(target=self._keep_running, name="gpu sampler", daemon=True).start()

    def stop(self) -> None:
        """End the process that asks."""
        self._stopped.set()
        if self._process is not None:
            self._process.kill()  # no harm if it has ended

    @property
    def process_id(self) -> int | None:
        """Of the process that asks the driver; None while there is none."""
        return None if self._process is None else self._process.pid

    def driver(self) -> DriverState:
        """How the driver stands now."""
        silence = time.monotonic() - self._heard
        state = self._driver
        if state.up and silence > self._intervals.limit:
            return replace(state, up=False, error=f"the process that asks the driver is silent for {silence:.0f} s")
        return state

    def gpus(self) -> tuple[Gpu, ...]:
        """Every GPU that was seen, lost ones included, in the order of their indices."""
        now = time.monotonic()
        with self._lock:
            found = [self._gpu(known, now) for known in self._known.values()]
        return tuple(sorted(found, key=lambda gpu: int(gpu.gpu)))

    def _gpu(self, known: _Known, now: float) -> Gpu:
        age = None if known.sampled is None else now - known.sampled
        limit = 3 * self._intervals.fast + self._intervals.limit
        stale = known.lost or (age is not None and age > limit)
        return Gpu(
            **known.identity,
            **({} if stale else known.values),
            lost=known.lost,
            blocked=known.blocked or now - self._heard > self._intervals.limit,
            error=known.error,
            sample_age_seconds=age,
            sample_duration_seconds=known.duration,
            xid_errors=dict(known.xid_errors),
            xid_last_time=dict(known.xid_last_time),
        )

    def _keep_running(self) -> None:
        while not self._stopped.is_set():
            try:
                code = self._run_once()
            except OSError as error:  # such as no memory for another process: later there may be
                self._driver = replace(self._driver, up=False, error=f"the asking process cannot start: {error}")
            else:
                self._ended(code)
            self._stopped.wait(self._pause)
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def _run_once(self) -> int:
        """Start the process that asks and listen to it until it ends; its exit code."""
        timing = [str(value) for value in (self._intervals.fast, self._intervals.slow, self._intervals.limit)]
        command = [sys.executable, "-P", "-m", "stoker.monitor.gpu", *timing]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
            self._process = process
            assert process.stdout is not None
            for line in process.stdout:
                self._heard = time.monotonic()
                self._take(line)
        return process.returncode

    def _ended(self, code: int) -> None:
        state = self._driver
        if code == 0 and not state.up:
            return  # it has said why: there is no driver
        told = f"the process that asks the driver ended with exit code {code}"
        self._driver = replace(state, up=False, error=told, restarts=state.restarts + 1)

    def _take(self, line: bytes) -> None:
        try:
            message = _understood(json.loads(line))
        except ValueError:
            return  # cut short, as the process died
        with self._lock:
            if "hello" in message:
                self._take_hello(message["hello"])
            elif "no_driver" in message:
                self._driver = replace(self._driver, up=False, error=str(message["no_driver"]))
            elif "alive" in message:
                for uuid, known in self._known.items():
                    known.blocked = uuid in message["alive"]
            elif "xid" in message:
                self._take_xid(str(message["xid"]), message["gpu"])
            elif "gpu" in message:
                self._take_sample(message)
        if "alive" not in message:
            self.news.set()

    def _take_hello(self, hello: Mapping[str, Any]) -> None:
        self._pause = FIRST_PAUSE
        self._driver = replace(
            self._driver, up=True, error=hello["error"], version=hello["driver"], nvml_version=hello["nvml"]
        )
        present = {gpu["uuid"]: typed_fields(Gpu, gpu) for gpu in hello["gpus"]}
        for uuid, identity in present.items():
            self._known.setdefault(uuid, _Known(identity)).identity = identity
        for uuid, known in self._known.items():
            known.lost = uuid not in present

    def _take_xid(self, code: str, uuid: str) -> None:
        known = self._known.get(uuid)
        if known is not None:
            known.xid_errors[code] = known.xid_errors.get(code, 0) + 1
            known.xid_last_time[code] = time.time()

    def _take_sample(self, message: Mapping[str, Any]) -> None:
        known = self._known.get(message["gpu"])
        if known is None:
            return
        known.lost, known.error = message["lost"], message["error"]
        if known.lost:
            known.values = {}
        elif message["values"] is not None:
            known.values |= message["values"]
            known.sampled, known.duration = time.monotonic(), message["seconds"]


def _understood(message: dict[str, Any]) -> dict[str, Any]:
    """A message with its values as fields of `Gpu`: what takes time is done before anyone has to wait for it.

    Raises:
        ValueError: A value has the wrong type.
    """
    values = message.get("values")
    if values is None:
        return message
    fields = typed_fields(Gpu, {name: value for name, value in values.items() if name != "processes"})
    if "processes" in values:
        fields["processes"] = tuple(describe(item["pid"], item["memory_bytes"]) for item in values["processes"])
    return {**message, "values": fields}
