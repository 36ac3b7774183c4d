"""Where the time of a step goes, without making the host wait for the device."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Literal

import torch

Phase = Literal["data", "forward", "backward", "optimizer"]


class HostClock:
    """Times phases on the host: right on the CPU, where a call returns when its work is done."""

    def __init__(self) -> None:
        self._spent: dict[Phase, float] = {}
        self._open: tuple[Phase, float] | None = None

    def phase(self, name: Phase) -> HostClock:
        """Context for a stretch of one phase; stretches add up, and do not nest."""
        self._open = name, 0.0
        return self

    def __enter__(self) -> None:
        assert self._open is not None
        self._open = self._open[0], time.perf_counter()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._open is not None
        name, start = self._open
        self._spent[name] = self._spent.get(name, 0.0) + time.perf_counter() - start

    def take(self) -> HostTimes:
        """The times since the last call."""
        spent, self._spent = self._spent, {}
        return HostTimes(spent)


class HostTimes:
    """Phase times of one step, known at once."""

    def __init__(self, spent: dict[Phase, float]) -> None:
        self._spent = spent

    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        return {str(name): seconds for name, seconds in self._spent.items()}


class DeviceClock:
    """Times phases with events on the device's stream, read when the step's results are.

    Waiting for data is timed on the host, where it happens.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._data = HostClock()
        self._events: list[tuple[Phase, torch.Event, torch.Event]] = []
        self._open: Phase = "data"
        self._start: torch.Event | None = None

    def phase(self, name: Phase) -> HostClock | DeviceClock:
        """Context for a stretch of one phase."""
        if name == "data":
            return self._data.phase(name)
        self._open = name
        return self

    def __enter__(self) -> None:
        self._start = self._mark()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self._start is not None
        self._events.append((self._open, self._start, self._mark()))

    def _mark(self) -> torch.Event:
        event = torch.Event(self._device, enable_timing=True)
        event.record()
        return event

    def take(self) -> DeviceTimes:
        """The times since the last call; they may still be running."""
        events, self._events = self._events, []
        return DeviceTimes(self._data.take().seconds(), events)


class DeviceTimes:
    """Phase times of one step; read them only once the device has passed its last event."""

    def __init__(self, host: dict[str, float], events: list[tuple[Phase, torch.Event, torch.Event]]) -> None:
        self._host, self._events = host, events

    def seconds(self) -> dict[str, float]:
        """Seconds by phase."""
        spent = dict(self._host)
        for name, start, stop in self._events:
            spent[name] = spent.get(name, 0.0) + start.elapsed_time(stop) / 1000
        return spent


Clock = HostClock | DeviceClock
Times = HostTimes | DeviceTimes


def make_clock(device: torch.device) -> Clock:
    """The clock for a device."""
    return HostClock() if device.type == "cpu" else DeviceClock(device)
