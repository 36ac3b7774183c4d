"""Environments that exist, judged: what is wrong is found with its evidence and its fix."""

from __future__ import annotations

import sys
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.plan.versions.check import Environment, check, read_environment
from stoker.plan.versions.request import build_request

GOOD = {
    "torch": "2.14.1",
    "torchvision": "0.29.1",
    "torchaudio": "2.11.1",
    "nvidia-cudnn-cu13": "9.24.0.43",
    "nvidia-nccl-cu13": "2.30.7",
    "numpy": "2.3.1",
}


def findings(packages, build="cuda 13.0", python="3.12", **machine):
    request = replace(build_request(**({"gpus": ["A100"], "driver": "580.178.04"} | machine)), day=date(2026, 12, 1))
    return check(Environment(python, packages, build), request)


def the_one(found, cause):
    (finding,) = [finding for finding in found if finding.cause == f"versions.{cause}"]
    return finding


def test_a_good_environment_is_ok():
    (finding,) = findings(GOOD)
    assert (finding.state, finding.cause) == ("ok", "versions.ok")
    assert finding.evidence[0].text == "torch 2.14.1"


def test_a_driver_below_the_floor():
    finding = the_one(findings(GOOD, driver="535.309.01"), "driver_runs_cuda")
    assert finding.state == "fail"
    assert "needs driver >= 580" in finding.title
    assert "driver 535.309.01" in [line.text for line in finding.evidence]
    # what works on that driver: cu126
    assert finding.fix == (
        "pip install torch==2.14.1 torchvision==0.29.1 torchaudio==2.11.1 "
        "--index-url https://download.pytorch.org/whl/cu126",
    )


def test_a_card_without_code():
    finding = the_one(findings(GOOD, gpus=["V100"]), "code_for_gpu")
    assert finding.state == "fail"
    assert "cu126" in finding.fix[0]


def test_an_ended_branch_is_a_warning():
    packages = GOOD | {"nvidia-nccl-cu13": "2.30.7"}
    finding = the_one(findings(packages, build="cuda 12.6", driver="535.309.01"), "driver_supported")
    assert finding.state == "warn"
    assert "Take 580 instead" in finding.title


@pytest.mark.parametrize(
    ("changed", "cause", "state", "fix"),
    [
        ({"torchvision": "0.28.0"}, "torchvision_mismatch", "fail", "pip install torchvision==0.29.1"),
        ({"torchvision": "0.29.0"}, "torchvision_mismatch", "warn", "pip install torchvision==0.29.1"),
        ({"torchaudio": "2.9.0"}, "torchaudio_mismatch", "fail", "pip install torchaudio==2.11.1"),
        (
            {"nvidia-cudnn-cu13": "9.20.0.48"},
            "library_pin",
            "warn",
            "pip install nvidia-cudnn-cu13==9.24.0.43",
        ),
        ({"nvidia-nccl-cu13": "2.28.9"}, "library_pin", "warn", "pip install nvidia-nccl-cu13==2.30.7"),
    ],
)
def test_one_wrong_package(changed, cause, state, fix):
    finding = the_one(findings(GOOD | changed), cause)
    assert finding.state == state
    assert finding.fix == (fix,)
    (name, version) = next(iter(changed.items()))
    assert f"{name} {version}" in [line.text for line in finding.evidence]


def test_two_cuda_majors_in_one_environment():
    finding = the_one(findings(GOOD | {"nvidia-nccl-cu12": "2.29.3"}), "two_cuda_majors")
    assert finding.state == "fail"


def test_numpy_2_under_an_old_torch():
    packages = {"torch": "2.2.2", "torchvision": "0.17.2", "numpy": "2.0.2"}
    finding = the_one(findings(packages, build="cuda 12.1"), "numpy_bound")
    assert (finding.state, finding.fix) == ("fail", ("pip install 'numpy<2'",))


def test_a_cpu_build_beside_cards():
    finding = the_one(findings({"torch": "2.14.1+cpu"}, build="cpu"), "cpu_build")
    assert finding.state == "fail"
    assert finding.fix[0].startswith("pip install torch==")


def test_an_unknown_torch_is_unknown_and_not_fine():
    finding = the_one(findings({"torch": "9.9.0"}, build="cuda 99.0"), "unknown_torch")
    assert finding.state == "unknown"


def test_an_unread_driver_is_unknown():
    found = findings(GOOD, driver=None)
    assert the_one(found, "driver_unread").state == "unknown"


def test_without_torch_nothing_is_called_fine():
    assert [finding.state for finding in findings({"numpy": "2.3.1"})] == ["info"]


def test_minor_version_compatibility_is_no_warning():
    found = findings(GOOD | {"torch": "2.14.1"}, driver="580.65.06", build="cuda 13.2")
    assert the_one(found, "minor_version").state == "info"


def test_this_interpreter_and_another_say_the_same():
    here = read_environment()
    other = read_environment(Path(sys.executable))
    assert here.python == other.python == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert other.packages["pytest"] == here.packages["pytest"] == pytest.__version__
    assert here.torch_build == other.torch_build


def test_an_interpreter_that_does_not_run_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="does not run"):
        read_environment(tmp_path / "python")


@pytest.mark.parametrize(
    ("text", "build"),
    [
        ("cuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n", "cuda 13.0"),
        ("cuda = None\nhip: Optional[str] = '7.2.53210'\n", "hip 7.2.53210"),
        ("cuda: Optional[str] = None\nhip: Optional[str] = None\n", "cpu"),
    ],
)
def test_what_torch_was_built_with_is_read_from_its_file(tmp_path, text, build):
    from stoker.plan.versions import environment_probe

    path = tmp_path / "version.py"
    path.write_text(text)
    assert environment_probe._torch_build(str(path)) == build


@pytest.mark.parametrize(
    ("card", "loaded_open", "fails"),
    [("RTX 5090", False, True), ("RTX 5090", True, False), ("V100", True, True), ("A100", False, False)],
)
def test_the_wrong_kernel_modules_are_found(card, loaded_open, fails):
    """NVRM refuses Blackwell without the open modules, and cards older than Turing with them."""
    request = build_request(gpus=[card], driver="580.178.04")
    request = replace(request, open_modules=loaded_open, day=date(2026, 12, 1))
    found = check(Environment("3.12", GOOD, "cuda 13.0"), request)
    assert any(finding.cause == "versions.loaded_modules" for finding in found) is fails
