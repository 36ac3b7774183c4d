from __future__ import annotations

import time

import pytest
import torch

from stoker.train.clock import DeviceClock, HostClock, make_clock


def test_stretches_of_a_phase_add_up_until_they_are_taken() -> None:
    clock = HostClock()
    began = time.perf_counter()
    for _ in range(2):
        with clock.phase("data"):
            time.sleep(0.01)
        with clock.phase("forward"):
            pass
    wall = time.perf_counter() - began
    spent = clock.take().seconds()
    assert list(spent) == ["data", "forward"]
    assert 0.02 <= spent["data"] <= wall - spent["forward"]
    assert clock.take().seconds() == {}


def test_a_phase_that_fails_is_counted_too() -> None:
    clock = HostClock()
    with pytest.raises(ZeroDivisionError), clock.phase("backward"):
        raise ZeroDivisionError
    assert "backward" in clock.take().seconds()


class Event:
    """Stands in for a device's: each is recorded one millisecond after the one before, and read later."""

    now = 0
    waits = 0

    def __init__(self, device: torch.device, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.now += 1
        self.at = Event.now

    def elapsed_time(self, later: Event) -> float:
        Event.waits += 1
        return later.at - self.at


def test_a_device_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated: without a device, its events are stood in for."""
    monkeypatch.setattr(torch, "Event", Event)
    clock = make_clock(torch.device("cuda"))
    assert isinstance(clock, DeviceClock)
    with clock.phase("data"):
        time.sleep(0.002)
    for _ in range(3):
        with clock.phase("forward"):
            pass
    with clock.phase("backward"):
        pass
    times = clock.take()
    assert Event.waits == 0, "taking the times must not wait"
    found = times.seconds()
    assert found == {"data": pytest.approx(found["data"]), "forward": 0.003, "backward": 0.001}
    assert found["data"] >= 0.002
    assert clock.take().seconds() == {}


def test_the_clock_of_the_cpu() -> None:
    assert type(make_clock(torch.device("cpu"))) is HostClock
