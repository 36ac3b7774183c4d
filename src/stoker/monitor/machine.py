"""Puts together what is known of this machine. Nothing here waits for a driver, a disk or a network."""

from __future__ import annotations

import socket
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from stoker._version import __version__
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.sampler import GpuSampler
from stoker.monitor.host import read_filesystems, read_host
from stoker.monitor.model import Exporter, Gpu, Host, MachineSample
from stoker.monitor.processes import run_of
from stoker.monitor.runs import RunFinder, SeenRun, as_run, launchers_of

Value = TypeVar("Value")
RUNS_EVERY, FILESYSTEMS_EVERY = 2.0, 15.0
CLOCK_JUMP = 1.0
"""Seconds by which the wall clock may stray from the steady one between two samples before it counts as a jump."""


class Refreshed(Generic[Value]):
    """A value that a thread of its own reads anew; one that is too old is as good as none.

    Args:
        read: Reads it; may hang.
        empty: Stands for none.
        every: Seconds between two readings.
    """

    def __init__(self, read: Callable[[], Value], empty: Value, every: float) -> None:
        self._read, self._empty, self._every = read, empty, every
        self._found: tuple[Value, float] | None = None

    def start(self) -> None:
        """Read for ever."""
        threading.Thread(target=self._keep_reading, daemon=True).start()

    def value(self) -> Value:
        """The last one."""
        found = self._found
        if found is None or time.monotonic() - found[1] > 3 * self._every + 10:
            return self._empty
        return found[0]

    def _keep_reading(self) -> None:
        told = ""
        while True:
            try:
                self._found = self._read(), time.monotonic()
            except Exception as error:  # a fault of ours, or a kernel unlike others: the rest goes on
                if told != repr(error):
                    traceback.print_exc()
                told = repr(error)
            time.sleep(self._every)


class Machine:
    """Watches this machine.

    Args:
        intervals: How often the GPUs are asked.
        registries: Where runs are looked for.
        simulated: The driver is a simulated one: every display has to say so.
    """

    def __init__(self, intervals: Intervals, registries: Sequence[Path], *, simulated: bool = False) -> None:
        self.sampler = GpuSampler(intervals)
        self._simulated = simulated
        self._finder = RunFinder(registries)
        self._host = Refreshed(read_host, Host(), intervals.fast)
        self._filesystems = Refreshed(read_filesystems, (), FILESYSTEMS_EVERY)
        self._runs: Refreshed[tuple[list[SeenRun], dict[int, str]]] = Refreshed(self._find_runs, ([], {}), RUNS_EVERY)
        self._began = time.time()
        self._lock = threading.Lock()
        self._offset = time.time() - time.monotonic()
        self._jumped = 0.0

    def start(self) -> None:
        """Begin to watch."""
        self.sampler.start()
        for part in (self._host, self._filesystems, self._runs):
            part.start()

    def stop(self) -> None:
        """End the process that asks the driver."""
        self.sampler.stop()

    def sample(self) -> MachineSample:
        """All that is known now."""
        clock, now = time.monotonic(), time.time()
        runs, owners = self._runs.value()
        gpus = tuple(_with_owners(gpu, owners) for gpu in self.sampler.gpus())
        return MachineSample(
            time=now,
            hostname=socket.gethostname(),
            exporter=self._exporter(len(gpus), now - clock),
            host=replace(self._host.value(), filesystems=self._filesystems.value()),
            gpus=gpus,
            runs=tuple(as_run(seen, _gpus_of(seen.status.folder, gpus), clock) for seen in runs),
            simulated=self._simulated,
        )

    def _exporter(self, gpus: int, offset: float) -> Exporter:
        with self._lock:
            jump = abs(offset - self._offset)
            self._jumped += jump if jump > CLOCK_JUMP else 0.0
            self._offset = offset
        driver = self.sampler.driver()
        return Exporter(
            version=__version__,
            driver=driver.version,
            nvml_version=driver.nvml_version,
            nvml_up=float(driver.up),
            nvml_error=driver.error,
            gpus_seen=gpus,
            sampler_restarts=driver.restarts,
            clock_jump_seconds=self._jumped,
            unreadable_runs=self._finder.unreadable,
            start_time_seconds=self._began,
        )

    def _find_runs(self) -> tuple[list[SeenRun], dict[int, str]]:
        runs = self._finder.find()
        folders = launchers_of(runs)
        pids = {process.pid for gpu in self.sampler.gpus() for process in gpu.processes} if folders else set[int]()
        return runs, {pid: folder for pid in pids if (folder := run_of(pid, folders))}


def _with_owners(gpu: Gpu, owners: dict[int, str]) -> Gpu:
    if not any(process.pid in owners for process in gpu.processes):
        return gpu
    processes = tuple(replace(process, run=owners.get(process.pid, "")) for process in gpu.processes)
    return replace(gpu, processes=processes)


def _gpus_of(folder: str, gpus: Sequence[Gpu]) -> tuple[str, ...]:
    return tuple(gpu.gpu for gpu in gpus if any(process.run == folder for process in gpu.processes))
