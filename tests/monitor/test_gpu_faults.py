"""A GPU that hangs, vanishes, refuses or lacks something holds up nothing else, and is told as what it is."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.monitor.exposition import Exposition
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.sampler import GpuSampler
from stoker.monitor.gpu.watch import ClockEventTime
from stoker.monitor.machine import Machine
from stoker.monitor.model import Gpu
from tests.monitor.waiting import until
from tests.nvml_sim import Scenario, build

Simulated = Callable[..., Scenario]
Start = Callable[..., GpuSampler]


def gpu(sampler: GpuSampler, index: int = 0) -> Gpu:
    return sampler.gpus()[index]


def rendered(machine: Machine) -> tuple[str, float]:
    """The metrics, and the least seconds that they took of several tries: the tests' machine has other work, too."""
    text, took = "", []
    for _ in range(5):
        began = time.perf_counter()
        text = Exposition().render(machine.sample(), 0.0).decode()
        took.append(time.perf_counter() - began)
    return text, min(took)


def test_a_call_that_hangs_holds_up_its_gpu_alone(simulated: Simulated, tmp_path: Path) -> None:
    scenario = simulated("h100", 8)
    machine = Machine(Intervals(0.2, 0.2, 0.5), [tmp_path])
    machine.start()
    try:
        until(lambda: len(machine.sample().gpus) == 8 and all(gpu.power_watts for gpu in machine.sample().gpus))
        scenario.gpus[3].lines = [("hang", "nvmlDeviceGetPowerUsage 60")]
        scenario.write()
        until(lambda: machine.sample().gpus[3].blocked)
        text, seconds = rendered(machine)
        assert seconds < 0.05
        assert 'stoker_gpu_blocked{gpu="3"' in text
        first = machine.sample().gpus
        time.sleep(0.5)
        later = machine.sample().gpus
        ages = [one.sample_age_seconds or 0.0 for one in later]
        assert ages[3] > (first[3].sample_age_seconds or 0) + 0.4
        assert ages[3] > 2 * max(ages[:3] + ages[4:])
        assert [one.blocked for one in later] == [index == 3 for index in range(8)]
        until(lambda: (machine.sample().gpus[3].sample_age_seconds or 0) > 3 * 0.2 + 0.5)
        stale = machine.sample().gpus[3]
        assert stale.power_watts is None  # a value of before must not look alive
        assert stale.uuid == later[3].uuid
        scenario.gpus[3].lines = []
        scenario.write()
        until(lambda: machine.sample().gpus[3].power_watts and not machine.sample().gpus[3].blocked)
    finally:
        machine.stop()


def test_a_gpu_that_hangs_from_the_start_keeps_nobody_from_the_others(simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("h100", 4)
    scenario.gpus[1].lines = [("hang", "nvmlDeviceGetUUID 60")]
    scenario.gpus[2].lines = [("hang", "nvmlDeviceRegisterEvents 60")]
    scenario.write()
    started = sampler()
    until(lambda: len(started.gpus()) == 3 and all(one.power_watts for one in started.gpus()))
    assert [one.gpu for one in started.gpus()] == ["0", "2", "3"]
    scenario.gpus[3].lines = [("xid", "79")]
    scenario.write()
    until(lambda: gpu(started, 2).xid_errors == {"79": 1})
    scenario.gpus[1].lines = []
    scenario.write()
    until(lambda: len(started.gpus()) == 4 and all(one.power_watts for one in started.gpus()))
    assert not any(one.lost or one.blocked for one in started.gpus())
    assert started.driver().restarts == 0


def test_a_gpu_that_vanishes_is_lost_and_not_absent(simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("a100", 2)
    started = sampler()
    until(lambda: len(started.gpus()) == 2 and gpu(started, 1).power_watts)
    scenario.gpus[1].values["lost"] = "1"
    scenario.write()
    until(lambda: gpu(started, 1).lost)
    lost = gpu(started, 1)
    assert (lost.uuid, lost.power_watts, lost.error) == (scenario.gpus[1].values["uuid"], None, "GPU is lost")
    assert gpu(started, 0).power_watts is not None
    age = lost.sample_age_seconds or 0.0
    until(lambda: (gpu(started, 1).sample_age_seconds or 0.0) > age + 0.3)
    del scenario.gpus[1].values["lost"]  # a reset brought it back
    scenario.write()
    until(lambda: gpu(started, 1).power_watts and not gpu(started, 1).lost)


def test_a_gpu_that_is_gone_when_the_sampler_starts_again_is_lost(simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("a100", 2)
    started = sampler()
    until(lambda: len(started.gpus()) == 2)
    del scenario.gpus[1]
    scenario.write()
    assert started.process_id is not None
    os.kill(started.process_id, signal.SIGKILL)
    until(lambda: gpu(started, 1).lost)
    assert started.driver().restarts == 1
    until(lambda: started.driver().up)
    assert not gpu(started, 0).lost


@pytest.mark.parametrize(
    ("symbol", "field", "kept"),
    [
        ("nvmlDeviceGetTemperatureV", "temperature_celsius", True),
        ("nvmlDeviceGetTemperature", "temperature_celsius", True),
        ("nvmlDeviceGetCurrentClocksEventReasons", "clock_event_active", True),
        ("nvmlDeviceGetFanSpeed_v2", "fan_speed_ratio", True),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes", True),
        ("nvmlDeviceGetFieldValues", "memory_temperature_celsius", False),
        ("nvmlDeviceGetPowerUsage", "power_watts", False),
    ],
)
def test_a_symbol_that_is_missing(
    symbol: str, field: str, kept: bool, library: Path, tmp_path: Path, simulated: Simulated, sampler: Start
) -> None:
    scenario = simulated("rtx4090", 1, within=build(tmp_path / "lib", without=[symbol]))
    scenario.gpus[0].values["memory_temperature"] = "50"
    scenario.write()
    started = sampler()
    until(lambda: started.gpus() and gpu(started).pcie_replays is not None)
    assert bool(getattr(gpu(started), field)) == kept
    assert gpu(started).error == ""


def test_not_supported_is_absent_and_never_zero(simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("rtx4090", 1)
    scenario.gpus[0].lines = [("error", "nvmlDeviceGetPowerUsage 3")]
    scenario.write()
    started = sampler()
    until(lambda: started.gpus() and gpu(started).pcie_replays is not None)
    seen = gpu(started)
    assert seen.power_watts is None
    assert seen.ecc_uncorrected_errors is None
    assert seen.nvlink_up == {}
    assert seen.utilization_ratio == 0.0
    assert seen.error == ""


def test_what_the_driver_refuses_for_another_reason_is_told(simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("a100", 1)
    scenario.gpus[0].lines = [("error", "nvmlDeviceGetPowerUsage 4")]
    scenario.write()
    started = sampler()
    until(lambda: started.gpus() and gpu(started).error)
    assert gpu(started).error == "nvmlDeviceGetPowerUsage: Insufficient Permissions"
    assert gpu(started).temperature_celsius == 55


@pytest.mark.parametrize(
    ("code", "told"), [(4, "Insufficient Permissions"), (9, "Driver Not Loaded"), (18, "mismatch")]
)
def test_a_driver_that_does_not_start_is_told(code: int, told: str, simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("a100", 1)
    scenario.driver["init_error"] = str(code)
    scenario.write()
    started = sampler()
    until(lambda: told.lower() in started.driver().error.lower())
    assert not started.driver().up
    assert started.driver().restarts == 0
    assert started.gpus() == ()


def test_no_driver_library_is_told(monkeypatch: pytest.MonkeyPatch, sampler: Start) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    started = sampler()
    until(lambda: "not found" in started.driver().error.lower() or started.driver().up)
    if started.driver().up:
        pytest.skip("this machine has a real driver")
    assert started.gpus() == ()


@pytest.mark.parametrize(
    "text", ["", "[gpu", "[gpu]\nname\n= 3\nuuid = \n", "\x00\xff\n[driver]\n" * 100, "[gpu]\n" * 99]
)
def test_a_wrong_scenario_file_ends_nothing(text: str, simulated: Simulated, sampler: Start) -> None:
    scenario = simulated("a100", 1)
    scenario.path.write_text(text, encoding="latin-1")
    started = sampler()
    until(lambda: started.driver().up)
    time.sleep(0.3)
    assert started.driver().restarts == 0
    scenario.write()


def test_a_sampler_that_is_stopped_makes_all_gpus_blocked(simulated: Simulated, sampler: Start) -> None:
    simulated("a100", 2)
    started = sampler(limit=1.5)
    until(lambda: len(started.gpus()) == 2)
    assert started.process_id is not None
    os.kill(started.process_id, signal.SIGSTOP)
    until(lambda: all(one.blocked for one in started.gpus()))
    assert "silent" in started.driver().error
    assert not started.driver().up
    os.kill(started.process_id, signal.SIGCONT)
    until(lambda: started.driver().up and not any(one.blocked for one in started.gpus()))


def test_a_gap_in_the_samples_is_no_throttling() -> None:
    counted = ClockEventTime(longest_gap=3.0)
    counted.add({"hw_slowdown": 1, "sync_boost": 0}, 10.0)
    counted.add({"hw_slowdown": 1, "sync_boost": 1}, 12.0)
    counted.add({"hw_slowdown": 1, "sync_boost": 1}, 20.0)
    total = counted.add({"hw_slowdown": 1, "sync_boost": 0}, 21.0)
    assert (total["hw_slowdown"], total["sync_boost"], total["gpu_idle"]) == (3.0, 0.0, 0.0)
    assert counted.add({}, 22.0) == {}
