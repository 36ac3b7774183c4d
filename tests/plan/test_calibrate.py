import pytest

from stoker.errors import UserError
from stoker.plan.calibrate import Profile, Sample, cpu_as_gpu, read_profile
from stoker.plan.hardware import find_gpu

SAMPLES = (
    Sample("gemm", "bfloat16", 2e12, 0.0, 0.01),
    Sample("gemm", "float32", 1e12, 0.0, 0.1),
    Sample("elementwise", "float32", 1.0, 1e9, 1e-3),
    Sample("overhead", "float32", 100.0, 0.0, 1e-3),
)


def test_measured_rates_replace_the_table(tmp_path):
    Profile("test", SAMPLES).save(tmp_path / "p.json")
    gpu = find_gpu("A100 80GB")
    changed = gpu.with_efficiency(read_profile(tmp_path / "p.json").fractions(gpu))
    assert changed.reached("gemm").value == pytest.approx(200e12 / 312e12)
    assert changed.reached("memory").value == pytest.approx(1e12 / 2.039e12)
    assert changed.reached("launch_us").value == pytest.approx(10.0)
    assert changed.reached("conv") == gpu.reached("conv")


def test_a_cpu_in_the_planners_terms():
    cpu = cpu_as_gpu(Profile("test", SAMPLES))
    assert cpu.flops["float32"] == pytest.approx(1e13)
    assert cpu.bandwidth == pytest.approx(1e12)


def test_what_is_no_profile_is_a_mistake_of_the_user(tmp_path):
    (tmp_path / "p.json").write_text("[]")
    with pytest.raises(UserError, match="no profile"):
        read_profile(tmp_path / "p.json")
