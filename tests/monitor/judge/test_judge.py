"""Every verdict in both directions: given where something is wrong, and not where it nearly is."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.monitor.judge import judge
from stoker.monitor.model import Exporter, Filesystem, GpuProcess, Host, MachineSample
from stoker.monitor.view import screen_of, words_of
from stoker.monitor.view.words import LANGUAGES
from tests.monitor.samples import GIB, TIME, gpu, machine, moment, run

SILENT = Exporter(version="0", nvml_up=0, nvml_error="Driver Not Loaded")
HELD = (GpuProcess(pid=9, process="jupyter", memory_bytes=30 * GIB),)


def causes(sample: MachineSample, seconds: int = 0) -> list[tuple[str, str]]:
    """What is found, after it was put into words in each language: none may lack one."""
    known = moment(sample, seconds=seconds)
    verdicts = judge(known)
    for language in LANGUAGES:
        assert len(screen_of(known, words_of(language)).findings) == len(verdicts)
    return [(verdict.cause, verdict.severity) for verdict in verdicts]


def test_a_healthy_machine_has_none() -> None:
    assert causes(machine(gpu(), gpu(1, utilization_ratio=0.0, processes=()), runs=(run(),)), seconds=3600) == []


def test_a_machine_of_which_nothing_is_known_has_none() -> None:
    assert causes(machine()) == []


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"lost": True, "ecc_uncorrected_errors": 3}, [("gpu-lost", "fail")]),
        ({"blocked": True}, [("gpu-blocked", "fail")]),
        ({"clock_event_active": {"hw_thermal_slowdown": 1.0}}, [("gpu-hardware-slowdown", "warn")]),
        ({"clock_event_active": {"sw_power_cap": 1.0, "gpu_idle": 1.0, "hw_slowdown": 0.0}}, []),
        ({"temperature_margin_celsius": 5}, [("gpu-thermal-margin-low", "warn")]),
        ({"temperature_margin_celsius": 6}, []),
        ({"temperature_margin_celsius": -2}, [("gpu-thermal-margin-low", "fail")]),
        ({"temperature_margin_celsius": None, "temperature_celsius": 84}, [("gpu-thermal-margin-low", "warn")]),
        ({"temperature_margin_celsius": None, "temperature_celsius": 80}, []),
        ({"temperature_margin_celsius": None, "temperature_celsius": 92, "model": "a new one"}, []),
        ({"recovery_action": 1}, [("gpu-recovery-needed", "fail")]),
        ({"recovery_action": 0}, []),
        (
            {"temperature_margin_celsius": None, "temperature_celsius": 92, "temperature_slowdown_celsius": 93},
            [("gpu-thermal-margin-low", "warn")],
        ),
        ({"ecc_uncorrected_errors": 1}, [("gpu-ecc-uncorrectable", "fail")]),
        ({"ecc_uncorrected_errors": 0, "row_remap_failure": 0}, []),
        ({"row_remap_failure": 1}, [("gpu-row-remap-failed", "fail")]),
        ({"row_remap_pending": 1}, [("gpu-memory-repair-pending", "warn")]),
        ({"pcie_link_width": 8}, [("gpu-pcie-width-reduced", "warn")]),
        ({"power_limit_watts": 500}, [("gpu-power-cap-lowered", "warn")]),
        ({"power_limit_watts": 699}, []),
        ({"xid_errors": {"79": 1.0}, "xid_last_time": {"79": TIME - 500}}, [("gpu-xid", "fail")]),
        ({"xid_errors": {"13": 1.0}, "xid_last_time": {"13": TIME - 500}}, [("gpu-xid", "info")]),
        ({"xid_errors": {"79": 1.0}, "xid_last_time": {"79": TIME - 700}}, []),
        ({"xid_errors": {"9999": 1.0}, "xid_last_time": {"9999": TIME}}, [("gpu-xid", "info")]),
    ],
)
def test_one_gpu(changed: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert causes(machine(gpu(**changed))) == found


@pytest.mark.parametrize(
    ("changed", "seconds", "found"),
    [
        ({"utilization_ratio": 0.0, "processes": HELD}, 900, ["gpu-idle-while-memory-held"]),
        ({"utilization_ratio": 0.0, "processes": HELD}, 600, []),
        ({"utilization_ratio": 0.2, "processes": HELD}, 900, []),
        ({"utilization_ratio": 0.0, "processes": ()}, 900, []),
        ({"utilization_ratio": None, "processes": HELD}, 900, []),
        ({"utilization_ratio": 0.0, "memory_total_bytes": None, "processes": HELD}, 900, []),
    ],
)
def test_idle_while_memory_is_held_needs_a_quarter_of_an_hour(
    changed: dict[str, Any], seconds: int, found: list[str]
) -> None:
    assert [cause for cause, _ in causes(machine(gpu(**changed)), seconds)] == found


@pytest.mark.parametrize(
    ("changed", "use", "found"),
    [
        ({"since_step_seconds": 310.0}, 1.0, [("run-hung", "fail")]),
        ({"since_step_seconds": 310.0}, 0.0, [("run-stalled", "fail")]),
        ({"since_step_seconds": 310.0}, None, [("run-stalled", "fail")]),
        ({"since_step_seconds": 290.0}, 1.0, []),
        ({"since_step_seconds": 310.0, "step_seconds": 60.0}, 1.0, []),
        ({"since_step_seconds": 310.0, "activity": "checkpoint"}, 1.0, []),
        ({"since_step_seconds": None, "state": "finished"}, 1.0, []),
        ({"since_step_seconds": None, "state": "stopped"}, 1.0, []),
        ({"since_step_seconds": 1801.0, "state": "starting"}, 0.0, [("run-stalled", "fail")]),
        ({"since_step_seconds": 1500.0, "state": "starting"}, 0.0, []),
        ({"checkpoint_age_seconds": 7300.0}, 1.0, [("run-checkpoint-too-old", "warn")]),
        ({"checkpoint_age_seconds": 7100.0}, 1.0, []),
        ({"state": "failed", "finding_title": "out of memory"}, 1.0, [("run-failed", "fail")]),
        ({"state": "killed"}, 1.0, [("run-killed", "fail")]),
        ({"loss": float("nan")}, 1.0, [("run-loss-not-finite", "fail")]),
        ({"loss": float("inf")}, 1.0, [("run-loss-not-finite", "fail")]),
        ({"loss": None}, 1.0, []),
    ],
)
def test_one_run(changed: dict[str, Any], use: float | None, found: list[tuple[str, str]]) -> None:
    assert causes(machine(gpu(utilization_ratio=use), runs=(run(**changed),))) == found


@pytest.mark.parametrize(
    ("share", "seconds", "found"), [(0.4, 600, ["run-data-starved"]), (0.4, 300, []), (0.2, 600, [])]
)
def test_starved_is_a_mean_over_minutes(share: float, seconds: int, found: list[str]) -> None:
    sample = machine(gpu(), runs=(run(data_wait_ratio=share),))
    assert [cause for cause, _ in causes(sample, seconds)] == found


@pytest.mark.parametrize(
    ("host", "exporter", "found"),
    [
        (Host(gpus_on_bus=2), None, ["gpus-missing"]),
        (Host(gpus_on_bus=1), None, []),
        (Host(gpus_on_bus=1), SILENT, ["driver-silent"]),
        (Host(shm_size_bytes=100, shm_used_bytes=90), None, ["shm-full"]),
        (Host(shm_size_bytes=100, shm_used_bytes=80), None, []),
        (
            Host(filesystems=(Filesystem(mount="/data", size_bytes=100, available_bytes=4),)),
            None,
            ["host-disk-filling"],
        ),
        (Host(filesystems=(Filesystem(mount="/data", size_bytes=100, available_bytes=5),)), None, []),
    ],
)
def test_the_machine(host: Host, exporter: Exporter | None, found: list[str]) -> None:
    changed = {"exporter": exporter} if exporter else {}
    assert [cause for cause, _ in causes(machine(gpu(), host=host, **changed))] == found


def test_a_machine_without_gpus_and_driver_is_no_fault() -> None:
    assert causes(machine(exporter=SILENT, host=Host(gpus_on_bus=0))) == []


def test_the_gravest_comes_first() -> None:
    sample = machine(gpu(power_limit_watts=300), gpu(1, lost=True), runs=(run(),))
    assert [severity for _, severity in causes(sample)] == ["fail", "warn"]


def test_what_shows_it_is_as_in_metrics() -> None:
    (verdict,) = judge(moment(machine(gpu(3, temperature_margin_celsius=4.5))))
    assert [str(proof) for proof in verdict.proofs] == [
        'stoker_gpu_temperature_margin_celsius{gpu="3"} 4.5',
        'stoker_gpu_temperature_celsius{gpu="3"} 60',
    ]
