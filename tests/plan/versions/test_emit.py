"""The forms in which a set is written: each is what its tool reads."""

from __future__ import annotations

import shlex
import tomllib
from datetime import date

import pytest
import yaml
from packaging.requirements import Requirement

from stoker.facts.gpus import gpus
from stoker.plan.versions import solve
from stoker.plan.versions.emit import emit, packages, pip_command, python_for
from stoker.plan.versions.request import build_request

FORMS = ["commands", "requirements", "uv", "conda", "containerfile", "ansible"]


def plan_for(**given):
    from dataclasses import replace

    return solve(replace(build_request(**given), day=date(2026, 12, 1)))


def test_the_default_wheel_needs_no_index():
    plan = plan_for(gpus=["A100"], os="ubuntu-24.04")
    assert pip_command(plan) == "pip install torch==2.15.0 torchvision==0.29.2 torchaudio==2.11.1"
    assert emit(plan, "commands") == (
        "# driver, then restart the machine\n"
        "sudo apt-get update\n"
        "sudo apt-get install -y nvidia-driver-pinning-620\n"
        "sudo apt-get install -y nvidia-open\n"
        "# Python 3.12\n"
        "pip install torch==2.15.0 torchvision==0.29.2 torchaudio==2.11.1\n"
    )
    assert emit(plan, "requirements") == "torch==2.15.0\ntorchvision==0.29.2\ntorchaudio==2.11.1\n"


def test_another_build_needs_its_index():
    plan = plan_for(gpus=["V100"], os="rocky-9")
    url = "https://download.pytorch.org/whl/cu126"
    assert pip_command(plan) == (f"pip install torch==2.14.1 torchvision==0.29.1 torchaudio==2.11.1 --index-url {url}")
    assert "sudo dnf module enable -y nvidia-driver:580-dkms" in emit(plan, "commands")
    lines = emit(plan, "requirements").splitlines()
    assert lines[:2] == [f"--extra-index-url {url}", "torch==2.14.1+cu126"]


def test_with_tensorflow_everything_is_resolved_at_once():
    plan = plan_for(gpus=["A100"], tensorflow="any", python="3.12")
    words = shlex.split(pip_command(plan))
    assert words[2:] == [
        "torch==2.14.1+cu126",
        "torchvision==0.29.1",
        "torchaudio==2.11.1",
        "tensorflow[and-cuda]==2.21.*",
        "numpy>=1.26",
        "--extra-index-url",
        "https://download.pytorch.org/whl/cu126",
    ]


def test_tensorflow_on_old_cards_bounds_cudnn():
    plan = plan_for(gpus=["V100"], tensorflow="any", want_torch=False)
    assert packages(plan) == ["tensorflow[and-cuda]==2.21.*", "nvidia-cudnn-cu12<9.11", "numpy>=1.26"]


def test_uv_takes_torch_from_an_explicit_index():
    data = tomllib.loads(emit(plan_for(gpus=["V100"]), "uv"))
    assert "torch==2.14.1" in data["project"]["dependencies"]
    (index,) = data["tool"]["uv"]["index"]
    assert index["url"] == "https://download.pytorch.org/whl/cu126"
    assert index["explicit"] is True
    assert data["tool"]["uv"]["sources"]["torch"] == {"index": index["name"]}


def test_conda_gives_python_and_pip_the_wheels():
    data = yaml.safe_load(emit(plan_for(gpus=["V100"]), "conda"))
    assert data["dependencies"][0] == "python=3.12"
    assert data["dependencies"][-1]["pip"][:2] == [
        "--extra-index-url https://download.pytorch.org/whl/cu126",
        "torch==2.14.1+cu126",
    ]


def test_a_containerfile_says_what_the_host_needs():
    text = emit(plan_for(gpus=["H100"], driver="535", torch="2.14"), "containerfile")
    assert "a driver >= 525.60.13" in text
    assert "FROM docker.io/library/python:3.12-slim" in text
    assert "pip install --no-cache-dir torch==2.14.1" in text


def test_ansible_variables():
    data = yaml.safe_load(emit(plan_for(gpus=["RTX 5090"]), "ansible"))
    assert data["nvidia_driver_branch"] == "620"
    assert data["nvidia_driver_flavour"] == "open"
    assert data["python_env_packages"][0] == "torch==2.15.0"


def test_amd_cards_get_no_nvidia_driver():
    plan = plan_for(gpus=["MI300X"])
    assert "nvidia" not in emit(plan, "ansible")
    assert "the ROCm kernel driver" in emit(plan, "containerfile")
    assert pip_command(plan).endswith("--index-url https://download.pytorch.org/whl/rocm7.2")


@pytest.mark.parametrize(
    ("given", "python"),
    [
        ({"gpus": ["A100"], "python": "3.11"}, "3.11"),
        ({"gpus": ["A100"], "os": "ubuntu-22.04", "torch": "2.14"}, "3.10"),
        ({"gpus": ["A100"], "os": "ubuntu-22.04"}, "3.12"),  # the system's 3.10 has no torch 2.15
        ({"gpus": ["A100"], "torch": "1.13"}, "3.11"),
    ],
)
def test_the_python_to_install_for(given, python):
    assert python_for(plan_for(**given)) == python


@pytest.mark.parametrize("model", [gpu.model for gpu in gpus()])
def test_every_model_has_an_answer_in_every_form(model):
    plan = plan_for(gpus=[model], os="ubuntu-22.04")
    assert plan.chosen is not None
    for form in FORMS:
        assert emit(plan, form).endswith("\n")
    for line in packages(plan):
        Requirement(line)
    yaml.safe_load(emit(plan, "conda"))
    yaml.safe_load(emit(plan, "ansible"))
    tomllib.loads(emit(plan, "uv"))


def test_no_output_names_the_default_index():
    for model in ("A100", "V100", "MI300X"):
        for form in FORMS:
            assert "pypi" not in emit(plan_for(gpus=[model]), form)


def test_what_was_not_chosen_cannot_be_written():
    with pytest.raises(ValueError, match="nothing was chosen"):
        emit(plan_for(gpus=["V100", "RTX 5090"]), "uv")


def test_a_doubtful_recipe_says_so():
    assert "# not tried" in emit(plan_for(gpus=["A100"], os="debian-12"), "commands")
    assert "# not tried" not in emit(plan_for(gpus=["A100"], os="ubuntu-24.04"), "commands")
