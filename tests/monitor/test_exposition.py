"""The text is what Prometheus reads, whatever names and values hold."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from stoker.monitor import exposition
from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import read_scenario
from stoker.monitor.exposition import Exposition
from stoker.monitor.model import (
    Disk,
    Exporter,
    Filesystem,
    Gpu,
    GpuProcess,
    Host,
    InfinibandPort,
    Interface,
    MachineSample,
    MigInstance,
    Run,
)
from stoker.monitor.series import all_series

HOST = Host(
    cpus=4, cpu_seconds={"user": 1.5}, pressure_seconds={"io": 2.0}, load1=0.5, memory_total_bytes=8.0,
    memory_available_bytes=4.0, shm_size_bytes=2.0, shm_used_bytes=1.0, boot_time_seconds=9.0, gpus_on_bus=2,
    filesystems=(Filesystem(mount="/data", size_bytes=10.0, available_bytes=4.0),),
    disks=(Disk(device="nvme0n1", read_bytes=1.0, written_bytes=2.0, io_seconds=3.0),),
    interfaces=(Interface(device="eth0", receive_bytes=1, transmit_bytes=2, errors=0, dropped=0, up=1),),
    infiniband=(InfinibandPort(device="mlx5_0", port="1", active=1, rate_bytes_per_second=25e9, receive_bytes=1,
                               transmit_bytes=2, errors={"link_downed": 1}),),
)  # fmt: skip
RUN = Run(
    run="a", folder="/runs/a", state="running", task="t", activity="train", gpus=("0", "1"), world_size=2, step=3,
    total_steps=9, epoch=0, progress_ratio=0.3, loss=math.nan, samples=96, samples_per_second=10, step_seconds=0.1,
    data_wait_ratio=0.2, mfu_ratio=0.4, micro_batch_size=4, since_step_seconds=0.05, checkpoint_age_seconds=60,
    started_time=1.0, ended_time=2.0, finding="loss-became-nan",
)  # fmt: skip

GPU = Gpu(
    gpu="0", uuid="u", model="m", pci="p", sample_age_seconds=1.0, sample_duration_seconds=0.1, power_watts=300.0,
    clock_event_active={"sw_power_cap": 1.0}, nvlink_up={"0": 1.0}, xid_errors={"79": 1.0},
    processes=(GpuProcess(pid=1, process="python", memory_bytes=5.0),),
    mig_instances=(MigInstance(instance="1", memory_used_bytes=1.0),),
)  # fmt: skip
EXPORTER = Exporter(version="1", driver="580", gpus_seen=1, start_time_seconds=1.0)


def sample(**changes: object) -> MachineSample:
    values: dict[str, object] = {"time": 0.0, "hostname": "h", "exporter": Exporter(version="1"), **changes}
    return MachineSample(**values)  # type: ignore[arg-type]


def read(text: bytes) -> dict[str, list[tuple[dict[str, str], float]]]:
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text.decode()):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def test_host_and_run_series_have_value_and_labels() -> None:
    found = read(Exposition().render(sample(host=HOST, runs=(RUN,)), 0.25))
    assert found["stoker_host_cpu_seconds_total"] == [({"mode": "user"}, 1.5)]
    assert found["stoker_host_filesystem_available_bytes"] == [({"mount": "/data"}, 4.0)]
    assert found["stoker_host_infiniband_errors_total"] == [
        ({"device": "mlx5_0", "port": "1", "counter": "link_downed"}, 1.0)
    ]
    run = {"run": "a", "folder": "/runs/a"}
    assert found["stoker_run_gpu"] == [({**run, "gpu": "0"}, 1.0), ({**run, "gpu": "1"}, 1.0)]
    assert found["stoker_run_finding"] == [({**run, "finding": "loss-became-nan"}, 1.0)]
    states = {labels["state"]: value for labels, value in found["stoker_run_state"]}
    assert states == {name: float(name == "running") for name in
                      ("starting", "running", "finished", "stopped", "failed", "killed")}  # fmt: skip
    assert math.isnan(found["stoker_run_loss"][0][1])
    assert found["stoker_exporter_scrape_duration_seconds"] == [({}, 0.25)]


def test_every_series_but_the_gpus_can_be_shown() -> None:
    exporter = Exporter(version="1", gpus_seen=0, start_time_seconds=1.0)
    shown = read(Exposition().render(sample(host=HOST, runs=(RUN,), exporter=exporter), 0.0)).keys()
    assert {series.name for series in all_series() if not series.name.startswith("stoker_gpu_")} <= shown


def test_types_and_help_are_those_of_the_table() -> None:
    text = Exposition().render(sample(host=HOST, runs=(RUN,)), 0.0).decode()
    assert "# TYPE stoker_host_cpu_seconds_total counter\n" in text
    assert "# TYPE stoker_run_state gauge\n" in text
    families = [family.name for family in text_string_to_metric_families(text)]
    assert len(families) == len(set(families)), "a family must stand together"


def test_a_run_without_gpus_and_a_gpu_without_values_have_no_empty_families() -> None:
    text = Exposition().render(sample(gpus=(Gpu(gpu="0", uuid="u"),)), 0.0).decode()
    assert "stoker_gpu_power_watts" not in text
    assert 'stoker_gpu_lost{gpu="0",uuid="u",model=""} 0\n' in text


def test_promtool_finds_nothing_to_complain_about() -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool, of Debian's package prometheus, is not installed here")
    gpu = Gpu(gpu="0", uuid="u", model="m", power_watts=1.0, energy_joules=2.0, xid_errors={"79": 1.0})
    text = Exposition().render(sample(host=HOST, runs=(RUN,), gpus=(gpu,)), 0.0)
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


@given(st.text(), st.floats())
def test_any_name_and_number_survives(name: str, number: float) -> None:
    process = GpuProcess(pid=1, process=name, memory_bytes=number)
    gpu = Gpu(gpu="0", uuid="u", processes=(process,))
    text = Exposition().render(sample(gpus=(gpu,)), 0.0)
    if any(mark in name for mark in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # prometheus_client's reader splits lines at these; Prometheus's own does not
    ((labels, value),) = read(text)["stoker_gpu_process_memory_bytes"]
    assert labels["process"] == name
    assert value == pytest.approx(number, nan_ok=True)


VALUES = st.none() | st.sampled_from([0.0, 1.0, 2.5, math.inf])
GPUS = st.builds(
    Gpu,
    gpu=st.sampled_from("01"),
    uuid=st.sampled_from(["GPU-a", "GPU-b"]),
    lost=st.booleans(),
    sample_age_seconds=VALUES,
    power_watts=VALUES,
    xid_errors=st.dictionaries(st.sampled_from(["13", "79"]), st.sampled_from([1.0, 2.0])),
    processes=st.lists(st.builds(GpuProcess, pid=st.integers(1, 2), memory_bytes=VALUES), max_size=2).map(tuple),
)
SAMPLES = st.builds(
    sample,
    gpus=st.lists(GPUS, max_size=3).map(tuple),
    host=st.sampled_from([Host(), HOST]),
    runs=st.lists(st.builds(replace, st.just(RUN), since_step_seconds=VALUES), max_size=2).map(tuple),
    exporter=st.builds(Exporter, version=st.just("1"), gpus_seen=st.integers(0, 2)),
)


@given(st.lists(SAMPLES, min_size=2, max_size=5))
def test_what_was_rendered_before_never_shows_again_when_it_has_changed(samples: list[MachineSample]) -> None:
    kept = Exposition()
    for one in samples:
        assert kept.render(one, 0.5) == Exposition().render(one, 0.5)


def test_each_field_of_each_record_is_looked_at() -> None:
    """One changed field after another: none may be overlooked in what decides whether a record is rendered again."""
    kept, full = Exposition(), sample(host=HOST, runs=(RUN,), gpus=(GPU,), exporter=EXPORTER)
    kept.render(full, 0.0)
    for part, record in (("host", HOST), ("runs", RUN), ("gpus", GPU), ("exporter", EXPORTER)):
        for field in fields(record):
            value = getattr(record, field.name)
            changed = replace(record, **{field.name: another(value)})
            after = replace(full, **{part: (changed,) if part in ("runs", "gpus") else changed})
            assert kept.render(after, 0.0) == Exposition().render(after, 0.0), f"{part}.{field.name}"
            kept.render(full, 0.0)


def another(value: Any) -> Any:
    """A value like a value, but not the same."""
    if isinstance(value, Mapping):
        return {**value, "another": 7.0}
    if isinstance(value, tuple):
        return value[:-1]
    if isinstance(value, str):
        return "failed" if value == "running" else f"{value} changed"
    return not value if isinstance(value, bool) else 7.25 if value is None else value + 1


def test_a_played_hour_is_the_same_with_and_without_what_was_kept() -> None:
    player, kept = Player(read_scenario(), begin=0.0), Exposition()
    for seconds in range(0, 3600, 97):
        played = player.sample(float(seconds))
        assert kept.render(played, 0.5) == Exposition().render(played, 0.5)


def test_what_has_not_changed_is_not_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Exposition()
    gpu = Gpu(gpu="0", uuid="u", power_watts=300.0, sample_age_seconds=1.0)
    kept.render(sample(gpus=(gpu,), host=HOST), 0.0)
    rendered: list[tuple[str, ...]] = []
    original = exposition._label_text  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(
        exposition, "_label_text", lambda chain, names: rendered.append(names) or original(chain, names)
    )
    text = kept.render(sample(gpus=(replace(gpu, sample_age_seconds=2.0),), host=HOST), 0.0).decode()
    assert 'stoker_gpu_power_watts{gpu="0",uuid="u",model=""} 300.0\n' in text
    assert 'stoker_gpu_sample_age_seconds{gpu="0",uuid="u",model=""} 2.0\n' in text
    assert rendered == [("gpu", "uuid", "model")]  # the age alone
