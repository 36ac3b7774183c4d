"""Each GPU metric has the scenario's value, in the table's unit, under the table's labels, through real bindings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stoker.monitor.exposition import Exposition
from stoker.monitor.gpu.readings import CLOCK_EVENTS, POLICIES
from stoker.monitor.gpu.sampler import GpuSampler
from stoker.monitor.model import Exporter, MachineSample
from stoker.monitor.series import all_series
from tests.monitor.waiting import until
from tests.nvml_sim import Scenario, SimulatedGpu, uuid_of

MIB, KIB = 1024**2, 1024
Key = tuple[str, frozenset[tuple[str, str]]]

SCALED: Mapping[str, tuple[str, float]] = {
    "utilization_ratio": ("utilization_gpu", 0.01),
    "memory_utilization_ratio": ("utilization_memory", 0.01),
    "encoder_utilization_ratio": ("encoder_utilization", 0.01),
    "decoder_utilization_ratio": ("decoder_utilization", 0.01),
    "memory_used_bytes": ("memory_used", 1),
    "memory_reserved_bytes": ("memory_reserved", 1),
    "memory_total_bytes": ("memory_total", 1),
    "temperature_celsius": ("temperature", 1),
    "temperature_margin_celsius": ("temperature_margin", 1),
    "temperature_slowdown_celsius": ("temperature_slowdown", 1),
    "temperature_shutdown_celsius": ("temperature_shutdown", 1),
    "slowdown_margin_celsius": ("slowdown_tlimit", 1),
    "memory_temperature_celsius": ("memory_temperature", 1),
    "memory_temperature_max_celsius": ("temperature_memory_max", 1),
    "fan_speed_ratio": ("fan_speed", 0.01),
    "power_watts": ("power_mw", 1e-3),
    "power_limit_watts": ("power_limit_mw", 1e-3),
    "power_default_limit_watts": ("power_default_limit_mw", 1e-3),
    "energy_joules_total": ("energy_mj", 1e-3),
    "sm_clock_hertz": ("sm_clock_mhz", 1e6),
    "sm_clock_max_hertz": ("sm_clock_max_mhz", 1e6),
    "memory_clock_hertz": ("memory_clock_mhz", 1e6),
    "memory_clock_max_hertz": ("memory_clock_max_mhz", 1e6),
    "pcie_link_generation": ("pcie_generation", 1),
    "pcie_link_generation_max": ("pcie_generation_max", 1),
    "pcie_link_width": ("pcie_width", 1),
    "pcie_link_width_max": ("pcie_width_max", 1),
    "pcie_transmit_bytes_total": ("pcie_tx_bytes", 1),
    "pcie_receive_bytes_total": ("pcie_rx_bytes", 1),
    "pcie_transmit_bytes_per_second": ("pcie_tx_kb_s", KIB),
    "pcie_receive_bytes_per_second": ("pcie_rx_kb_s", KIB),
    "pcie_replays_total": ("pcie_replays", 1),
    "fabric_state": ("fabric_state", 1),
    "ecc_mode": ("ecc_mode", 1),
    "ecc_corrected_errors_total": ("ecc_corrected", 1),
    "ecc_uncorrected_errors_total": ("ecc_uncorrected", 1),
    "ecc_corrected_aggregate_errors_total": ("ecc_corrected_aggregate", 1),
    "ecc_uncorrected_aggregate_errors_total": ("ecc_uncorrected_aggregate", 1),
    "sram_ecc_threshold_exceeded": ("sram_threshold_exceeded", 1),
    "row_remap_pending": ("remap_pending", 1),
    "row_remap_failure": ("remap_failure", 1),
    "retired_pages_pending": ("retired_pending", 1),
    "recovery_action": ("recovery_action", 1),
    "persistence_mode": ("persistence_mode", 1),
    "mig_mode": ("mig_mode", 1),
}
ACTIVITY = {"sm_activity_ratio": "gpm_sm", "tensor_activity_ratio": "gpm_tensor", "dram_activity_ratio": "gpm_dram"}
NVLINKS = {
    "nvlink_up": ("nvlink_state", 1), "nvlink_transmit_bytes_total": ("nvlink_tx_kib", KIB),
    "nvlink_receive_bytes_total": ("nvlink_rx_kib", KIB), "nvlink_crc_errors_total": ("nvlink_crc", 1),
    "nvlink_replay_errors_total": ("nvlink_replay", 1), "nvlink_recovery_errors_total": ("nvlink_recovery", 1),
}  # fmt: skip
UNSTEADY = {"sample_age_seconds", "sample_duration_seconds", "clock_event_seconds_total"}


def expected(scenario: Scenario, model: str) -> dict[Key, float]:
    """Every GPU series that the scenario's cards can give."""
    found: dict[Key, float] = {}
    for index, gpu in enumerate(scenario.gpus):
        labels = {"gpu": str(index), "uuid": uuid_of(model, index), "model": gpu.values["name"]}
        for (name, extra), value in values_of(gpu).items():
            found[f"stoker_gpu_{name}", frozenset({**labels, **dict(extra)}.items())] = value
        pci = gpu.values["pci"].lower().removeprefix("0000")
        found["stoker_gpu_info", frozenset({**labels, "pci": pci}.items())] = 1
    return found


def values_of(gpu: SimulatedGpu) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Series of one GPU by name and further labels."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float | None] = {("lost", ()): 0, ("blocked", ()): 0}
    for name, (key, factor) in SCALED.items():
        raw = gpu.number(key)
        found[name, ()] = None if raw is None else raw * factor
    total, reserved, used = (gpu.number(f"memory_{part}") for part in ("total", "reserved", "used"))
    assert total is not None
    assert reserved is not None
    assert used is not None
    found["memory_free_bytes", ()] = total - reserved - used
    for name, key in ACTIVITY.items():
        raw = gpu.number(key) if gpu.number("gpm") else None
        found[name, ()] = None if raw is None else raw / 100
    for name, (key, factor) in NVLINKS.items():
        for link in range(int(gpu.number("nvlinks") or 0)):
            raw = gpu.number(key, link)
            found[name, (("link", str(link)),)] = None if raw is None else raw * factor
    mask = int(gpu.number("clock_event_reasons") or 0)
    for reason, bit in CLOCK_EVENTS.items():
        found["clock_event_active", (("reason", reason),)] = float(bool(mask & bit))
    for policy, number in POLICIES.items():
        raw = gpu.number("violation_ns", number)
        found["throttled_seconds_total", (("policy", policy),)] = None if raw is None else raw / 1e9
    for kind in ("corrected", "uncorrected"):
        found["remapped_rows", (("kind", kind),)] = gpu.number(f"remapped_{kind}")
        found["retired_pages", (("kind", kind),)] = gpu.number(f"retired_{kind}")
    health = gpu.number("fabric_health")
    found["fabric_degraded", ()] = None if health is None else {1: 1.0, 2: 0.0}.get(int(health))
    return {key: value for key, value in found.items() if value is not None}


def exported(sampler: GpuSampler) -> dict[Key, float]:
    """GPU series as Prometheus would read them, without those that no scenario decides."""
    sample = MachineSample(time=0, hostname="", exporter=Exporter(version=""), gpus=sampler.gpus())
    families = text_string_to_metric_families(Exposition().render(sample, 0.0).decode())
    return {
        (found.name, frozenset(found.labels.items())): found.value
        for family in families
        for found in family.samples
        if found.name.startswith("stoker_gpu_") and found.name.removeprefix("stoker_gpu_") not in UNSTEADY
    }


def settled(sampler: GpuSampler, count: int) -> None:
    """Wait for two samples of every GPU: activity is what lies between two."""

    def ready() -> bool:
        gpus = sampler.gpus()
        return len(gpus) == count and all(gpu.persistence_mode is not None and gpu.clock_event_seconds for gpu in gpus)

    until(ready)
    ages = [gpu.sample_age_seconds or 0.0 for gpu in sampler.gpus()]
    until(
        lambda: all((gpu.sample_age_seconds or 0) < age + 0.001 for gpu, age in zip(sampler.gpus(), ages, strict=True))
    )


@pytest.fixture(scope="session")
def bindings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path | None]:
    """A folder with nvidia-ml-py of a major version; None where the installed one is of it."""
    folders: dict[int, Path] = {}

    def find(major: int) -> Path | None:
        if version("nvidia-ml-py").split(".")[0] == str(major):
            return None
        if major not in folders:
            folder = tmp_path_factory.mktemp(f"nvidia-ml-py-{major}")
            wanted = f"nvidia-ml-py>={major},<{major + 1}"
            words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), wanted]
            done = subprocess.run(words, capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                pytest.skip(f"{wanted} cannot be had here: {done.stderr.strip().splitlines()[-1:]}")
            folders[major] = folder
        return folders[major]

    return find


@pytest.mark.parametrize(("model", "count"), [("a100", 8), ("h100", 8), ("rtx4090", 2), ("t4", 1)])
@pytest.mark.parametrize("major", [12, 13])
def test_every_value_unit_and_label(
    model: str,
    count: int,
    major: int,
    bindings: Callable[[int], Path | None],
    simulated: Callable[..., Scenario],
    sampler: Callable[..., GpuSampler],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = bindings(major)
    if folder is not None:
        monkeypatch.setenv("PYTHONPATH", f"{folder}:{':'.join(sys.path)}")
    scenario = simulated(model, count)
    scenario.gpus[0].values["temperature"] = "61"  # so that not all GPUs are alike
    scenario.write()
    started = sampler()
    settled(started, count)
    wanted = expected(scenario, model)
    until(lambda: exported(started).keys() >= wanted.keys(), 5)
    assert exported(started) == pytest.approx(wanted)
    assert started.driver().nvml_version == "13.580.95.05"


def test_the_four_machines_show_every_series(
    simulated: Callable[..., Scenario], sampler: Callable[..., GpuSampler]
) -> None:
    """All but those that tests of their own show: processes, MIG, Xid."""
    shown: set[str] = set()
    for model in ("a100", "h100", "rtx4090", "t4"):
        shown |= {name for name, _ in expected(simulated(model, 1), model)}
    named = {series.name for series in all_series() if series.name.startswith("stoker_gpu_")}
    apart = {name for name in named if name.startswith(("stoker_gpu_mig_m", "stoker_gpu_mig_s", "stoker_gpu_xid"))}
    apart |= {"stoker_gpu_process_memory_bytes"} | {f"stoker_gpu_{name}" for name in UNSTEADY}
    assert named - apart <= shown


def test_throttling_is_summed_from_sample_to_sample(
    simulated: Callable[..., Scenario], sampler: Callable[..., GpuSampler]
) -> None:
    simulated("t4", 1)  # sw_power_cap and sw_thermal_slowdown
    started = sampler(fast=0.1)
    until(lambda: any(gpu.clock_event_seconds.get("sw_thermal_slowdown", 0) > 0.5 for gpu in started.gpus()))
    seconds = started.gpus()[0].clock_event_seconds
    assert seconds["sw_power_cap"] == seconds["sw_thermal_slowdown"] < 20
    assert seconds["hw_thermal_slowdown"] == 0


def test_mig_instances(simulated: Callable[..., Scenario], sampler: Callable[..., GpuSampler]) -> None:
    scenario = simulated("h100", 1)
    scenario.gpus[0].values |= {"mig_mode": "1", "gpm_sm.2": "25"}
    scenario.gpus[0].lines += [("mig", "1 1000 2000 MIG-a 3g.40gb"), ("mig", "2 500 1500 MIG-b 4g.40gb")]
    scenario.write()
    started = sampler()

    def ready() -> bool:
        found = [one for gpu in started.gpus() for one in gpu.mig_instances]
        return len(found) == 2 and found[1].sm_activity_ratio is not None

    until(ready)
    instances = started.gpus()[0].mig_instances
    assert [(one.instance, one.profile, one.mig_uuid) for one in instances] == [
        ("1", "3g.40gb", "MIG-a"), ("2", "4g.40gb", "MIG-b"),
    ]  # fmt: skip
    assert [(one.memory_used_bytes, one.memory_total_bytes) for one in instances] == [(1000, 2000), (500, 1500)]
    assert instances[1].sm_activity_ratio == pytest.approx(0.25)


def test_xid_errors_are_counted_by_code(simulated: Callable[..., Scenario], sampler: Callable[..., GpuSampler]) -> None:
    scenario = simulated("a100", 2)
    started = sampler()
    until(lambda: len(started.gpus()) == 2)
    scenario.gpus[1].lines += [("xid", "79"), ("xid", "48"), ("xid", "79")]
    scenario.write()
    until(lambda: sum(started.gpus()[1].xid_errors.values()) == 3)
    first, second = started.gpus()
    assert (first.xid_errors, second.xid_errors) == ({}, {"79": 2, "48": 1})
    assert second.xid_last_time["79"] > 1.7e9
