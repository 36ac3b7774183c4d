"""Follows a machine from sample to sample: the newest values, rates of counters, and the last hour."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stoker.monitor.history import History
from stoker.monitor.model import Gpu, Host, Interface, MachineSample, PerName, Run


class Key(NamedTuple):
    """One series: of what, and which value of it.

    Attributes:
        subject: `gpu:<uuid>`, `run:<folder>` or `host`.
        name: The field of the sample, or the name of a rate made from it.
    """

    subject: str
    name: str


Values = Mapping[Key, float]

HOST = "host"
SAME_READING = 0.2
"""Seconds: what seems to have been read closer together is one reading, seen twice."""
GPU_KEPT = (
    "utilization_ratio",
    "sm_activity_ratio",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
    "sm_clock_hertz",
)
RUN_KEPT = ("loss", "samples_per_second", "data_wait_ratio", "mfu_ratio", "since_step_seconds")
"""Fields whose last hour is kept."""


def gpu_subject(gpu: Gpu) -> str:
    """The subject of a GPU's series."""
    return f"gpu:{gpu.uuid}"


def run_subject(run: Run) -> str:
    """The subject of a run's series."""
    return f"run:{run.folder}"


@dataclass(frozen=True)
class Moment:
    """What is known now and of the last hour.

    Attributes:
        rates: What grew since the sample before, per second, or as a share of the time.
        history: The last hour of the fields that are kept and of all rates.
        at: When the sample was taken in, in seconds of a clock that does not jump.
    """

    sample: MachineSample
    rates: Values
    history: History
    at: float


class Watch:
    """Takes samples in and says what is known; one thread may take while others look.

    Args:
        history: Where the last hour is kept.
    """

    def __init__(self, history: History | None = None) -> None:
        self._history = history or History()
        self._moment: Moment | None = None
        self.lock = threading.Lock()
        """Held while a sample is taken in; hold it to look at `moment` in another thread."""

    @property
    def moment(self) -> Moment | None:
        """What is known; None before the first sample."""
        return self._moment

    def take(self, sample: MachineSample, now: float) -> None:
        """Take in a sample.

        Args:
            sample: The newest one.
            now: Seconds of a clock that does not jump.
        """
        with self.lock:
            rates = rates_between(self._moment, sample, now) if self._moment else {}
            self._history.add(now, {**dict(kept_values(sample)), **rates})
            self._moment = Moment(sample, rates, self._history, now)


def kept_values(sample: MachineSample) -> Iterator[tuple[Key, float]]:
    """The values whose last hour is kept, as far as they were measured."""
    for gpu in sample.gpus:
        yield from _fields(gpu_subject(gpu), gpu, GPU_KEPT)
    for run in sample.runs:
        yield from _fields(run_subject(run), run, RUN_KEPT)
    host = sample.host
    if host.memory_total_bytes is not None and host.memory_available_bytes is not None:
        yield Key(HOST, "main_memory_used_bytes"), host.memory_total_bytes - host.memory_available_bytes
    yield from _fields(HOST, host, ("shm_used_bytes",))


def _fields(subject: str, record: Gpu | Run | Host, names: tuple[str, ...]) -> Iterator[tuple[Key, float]]:
    for name in names:
        value = getattr(record, name)
        if value is not None:
            yield Key(subject, name), value


def rates_between(before: Moment, sample: MachineSample, now: float) -> dict[Key, float]:
    """Rates of the counters of two samples; a counter that began again gives none.

    GPUs and host are read at times of their own: until one is read again its rates stay.

    Args:
        before: What was known before.
        sample: The new sample.
        now: When it was taken, by the clock of `before.at`.
    """
    rates: dict[Key, float] = {}
    known = {gpu.uuid: gpu for gpu in before.sample.gpus}
    for gpu in sample.gpus:
        old = known.get(gpu.uuid)
        if old is None:
            continue
        passed = (now - (gpu.sample_age_seconds or 0.0)) - (before.at - (old.sample_age_seconds or 0.0))
        rates.update(_gpu_rates(old, gpu, passed) if passed > SAME_READING else _rates_of(before, gpu_subject(gpu)))
    same_host = sample.host == before.sample.host
    rates.update(_rates_of(before, HOST) if same_host else _host_rates(before.sample.host, sample.host))
    return rates


def _rates_of(moment: Moment, subject: str) -> dict[Key, float]:
    return {key: value for key, value in moment.rates.items() if key.subject == subject}


def _gpu_rates(old: Gpu, new: Gpu, seconds: float) -> Iterator[tuple[Key, float]]:
    for name in ("pcie_receive", "pcie_transmit"):
        grown = _grown(getattr(old, f"{name}_bytes"), getattr(new, f"{name}_bytes"))
        if grown is not None:
            yield Key(gpu_subject(new), f"{name}_rate"), grown / seconds


def _host_rates(old: Host, new: Host) -> Iterator[tuple[Key, float]]:
    """Rates over the time between two readings of the host, which the CPUs' own account tells."""
    grown = {mode: _grown(old.cpu_seconds.get(mode), value) for mode, value in new.cpu_seconds.items()}
    spent = {mode: seconds for mode, seconds in grown.items() if seconds is not None}
    total = sum(spent.values())
    if not new.cpus or total <= 0:
        return
    yield Key(HOST, "cpu_ratio"), 1 - (spent.get("idle", 0.0) + spent.get("iowait", 0.0)) / total
    seconds = total / new.cpus
    for name, counters in _HOST_COUNTERS.items():
        before, after = counters(old), counters(new)
        grown = {device: _grown(before.get(device), value) for device, value in after.items()}
        known = [value for value in grown.values() if value is not None]
        if known:
            yield Key(HOST, f"{name}_rate"), sum(known) / seconds


def _grown(before: float | None, after: float | None) -> float | None:
    """How much a counter grew; None where it is unknown or began again."""
    if before is None or after is None or after < before:
        return None
    return after - before


_HOST_COUNTERS: Mapping[str, Callable[[Host], PerName]] = {
    "disk_read": lambda host: {disk.device: disk.read_bytes for disk in host.disks},
    "disk_write": lambda host: {disk.device: disk.written_bytes for disk in host.disks},
    "network_receive": lambda host: {port.device: port.receive_bytes for port in _wires(host)},
    "network_transmit": lambda host: {port.device: port.transmit_bytes for port in _wires(host)},
    "infiniband_receive": lambda host: _known(host, "receive_bytes"),
    "infiniband_transmit": lambda host: _known(host, "transmit_bytes"),
}


def _wires(host: Host) -> list[Interface]:
    return [port for port in host.interfaces if port.device != "lo"]


def _known(host: Host, name: str) -> dict[str, float]:
    found = {f"{port.device}:{port.port}": getattr(port, name) for port in host.infiniband}
    return {port: value for port, value in found.items() if value is not None}
