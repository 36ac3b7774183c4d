"""What is put together of a machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.monitor import machine as module
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.machine import Machine, Refreshed
from tests.monitor.waiting import until
from tests.nvml_sim import Scenario

INTERVALS = Intervals(0.2, 0.2, 1.0)


def test_before_anything_was_read_there_is_a_sample(tmp_path: Path) -> None:
    sample = Machine(INTERVALS, [tmp_path]).sample()
    assert (sample.gpus, sample.runs, sample.exporter.nvml_up) == ((), (), 0)
    assert sample.exporter.nvml_error
    assert sample.hostname


def test_a_clock_that_jumps_is_counted_and_changes_no_age(
    tmp_path: Path, simulated: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated("t4", 1)
    machine = Machine(INTERVALS, [tmp_path])
    machine.start()
    try:
        until(lambda: machine.sample().gpus and machine.sample().gpus[0].power_watts)
        for offset in (3600.0, -7200.0):
            real = time.time
            with monkeypatch.context() as patch:
                patch.setattr(module.time, "time", lambda real=real, offset=offset: real() + offset)
                machine.sample()
                jumped = machine.sample()
                age = jumped.gpus[0].sample_age_seconds
                assert age is not None
                assert 0 <= age < 60
                assert jumped.host is not None
        # there, back, and so again: 3600 + (3600 + 7200)
        assert machine.sample().exporter.clock_jump_seconds == pytest.approx(3600 + 10_800 + 7200, abs=5)
    finally:
        machine.stop()


def test_a_reading_that_hangs_becomes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()
    values = iter([1, 2])

    def read() -> int:
        if (found := next(values)) == 2:
            hanging.wait()  # for ever, like a file system whose server is gone
        return found

    part = Refreshed(read, 0, every=0.01)
    assert part.value() == 0
    part.start()
    assert until(part.value) == 1
    later = time.monotonic() + 100
    monkeypatch.setattr(module.time, "monotonic", lambda: later)
    assert part.value() == 0


def test_a_reading_that_fails_is_told_once_and_tried_again(capfd: pytest.CaptureFixture[str]) -> None:
    tries: list[int] = []

    def read() -> int:
        tries.append(1)
        if len(tries) < 4:
            raise OSError("no such counter")
        return 5

    part = Refreshed(read, 0, every=0.01)
    part.start()
    assert until(part.value) == 5
    assert capfd.readouterr().err.count("OSError: no such counter") == 1
