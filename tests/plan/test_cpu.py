from __future__ import annotations

import pytest

from stoker.plan.calibrate import Profile, Sample
from stoker.plan.cpu import cache_folder, kept_profile, this_cpu
from stoker.plan.hardware import GIB
from stoker.plan.layout import Layout
from stoker.plan.memory import judge
from stoker.plan.trace.log import Memory, Tensor, Trace

PROFILE = Profile(
    "CPU with 1 threads",
    (
        Sample("gemm", "float32", 1e9, 0.0, 0.1),
        Sample("elementwise", "float32", 1e7, 1e8, 0.01),
        Sample("overhead", "float32", 100.0, 0.0, 1e-3),
    ),
)


@pytest.fixture
def profile(tmp_path):
    PROFILE.save(tmp_path / "profile.json")
    return tmp_path / "profile.json"


def test_a_share_of_this_machine(tmp_path, profile) -> None:
    (tmp_path / "cpuinfo").write_text("model name : Some Processor\n")
    (tmp_path / "meminfo").write_text(f"MemTotal: {16 << 20} kB\n")
    cpu = this_cpu(2, profile=profile, proc=tmp_path)
    assert cpu.on_cpu
    assert cpu.memory_bytes == 8 * GIB
    assert cpu.name.startswith("Some Processor (")
    assert cpu.name.endswith("1 of 2 shares)")
    assert cpu.flops["float32"] == 1e10


def test_a_kept_profile_is_not_measured_again(tmp_path) -> None:
    environ = {"XDG_CACHE_HOME": str(tmp_path)}
    assert cache_folder(environ) == tmp_path / "stoker"
    said: list[str] = []
    import hashlib
    from importlib import metadata

    key = hashlib.sha256(f"Some Processor 3 {metadata.version('torch')}".encode()).hexdigest()[:16]
    (tmp_path / "stoker").mkdir()
    PROFILE.save(tmp_path / "stoker" / f"cpu-operators-{key}.json")
    assert kept_profile("Some Processor", 3, say=said.append, environ=environ) == PROFILE
    assert said == []


def test_memory_of_a_process_is_its_tensors_and_what_it_held_before(tmp_path, profile) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 1000 kB\n")
    cpu = this_cpu(1, profile=profile, proc=tmp_path)
    trace = Trace("cpu", 1, resident=500_000)
    trace.tensors += [Tensor(300_000, "setup", 0, 0, 0, "parameter"), Tensor(200_000, "forward", 0, 0, 0)]
    trace.memory = [Memory(1, 300_000, 0), Memory(2, 200_000, 0), Memory(2, 0, 0)]
    trace.marks = [(0, "setup", 0), (0, "forward", 1)]
    plan = judge(trace, cpu, Layout())
    assert plan.device_bytes == 1_000_000
    assert plan.verdict == "tight"
    assert plan.categories["parameters"] == 300_000
    assert plan.categories["context"] == 500_000
    assert plan.peak == "forward of step 1"
    assert sum(plan.categories.values()) == plan.device_bytes
