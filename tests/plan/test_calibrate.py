import pytest
import torch

from stoker.errors import UserError
from stoker.plan.calibrate import Profile, Sample, cpu_as_gpu, read_profile
from stoker.plan.hardware import find_gpu
from stoker.plan.roofline import Roofline
from stoker.plan.trace.log import Cost, Op

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


def test_a_cpu_is_priced_by_its_operators(tmp_path):
    one = Sample("elementwise", "float32", 1.0, 1e6, 1e-4, "aten.add")
    product = Sample("gemm", "float32", 2e6, 3e4, 1e-5, "aten.mm", (100, 100, 100, 1))
    around = Sample("around", "float32", 10.0, 0.0, 2e-5, "optimizer")
    profile = Profile("test", (*SAMPLES, one, product, around))
    profile.save(tmp_path / "p.json")
    assert read_profile(tmp_path / "p.json") == profile
    cpu = cpu_as_gpu(profile)
    roofline = Roofline(cpu)
    cost = Cost("elementwise", 1.0, 5e5, 5e5, "float32", 1, ())
    assert roofline.seconds(Op("aten.add", cost, 0, "forward", 0, 0)) == pytest.approx(1e-4)
    assert roofline.seconds(Op("aten.add", cost, 0, "optimizer", 0, 0)) == pytest.approx(1.02e-4)
    assert Roofline(cpu, side="low").seconds(Op("aten.add", cost, 0, "forward", 0, 0)) > 1e-4


def test_operators_of_a_layer_are_taken_down_with_their_work():
    from stoker.plan import calibrate_cpu

    seen = set()
    with calibrate_cpu._Capture(seen) as capture:
        calibrate_cpu._both(torch.nn.Linear(4, 6), (3, 4))
    found = {call.name: call for call in capture.calls}
    assert found["aten.addmm"].cost.shape == (3, 6, 4, 1)
    assert found["aten.mm"].cost.kind == "gemm"
    with torch.no_grad():
        found["aten.addmm"].run()


def test_what_surrounds_operators_is_what_they_do_not_take_themselves():
    from stoker.plan.calibrate_cpu import around, parts

    part = parts()["forward"]
    beyond, count = around(part, lambda run: 1.0 if run is part else 0.0)
    assert beyond == 1.0
    assert count > 12 * 4
