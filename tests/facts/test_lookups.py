"""Finding cards, systems, branches and releases by what people write."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UserError
from stoker.facts import drivers, frameworks, gpus, signals, systems
from stoker.facts.version import Version


@pytest.mark.parametrize(
    ("printed", "model"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA H100 NVL", "H100 NVL 94GB"),
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("NVIDIA GH200 480GB", "GH200 96GB"),
        ("NVIDIA B200", "B200 SXM 180GB"),
        ("NVIDIA B300 SXM6 AC", "B300 SXM"),
        ("Tesla V100-SXM2-16GB", "Tesla V100 SXM2 16GB"),
        ("Tesla V100-PCIE-32GB", "Tesla V100 PCIe 32GB"),
        ("Tesla V100S-PCIE-32GB", "Tesla V100S PCIe 32GB"),
        ("Tesla P100-PCIE-16GB", "Tesla P100 PCIe 16GB"),
        ("Tesla K80", "Tesla K80"),
        ("Tesla T4", "Tesla T4"),
        ("A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-SXM4-40GB", "A100 SXM4 40GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA GeForce RTX 4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 4090 D", "GeForce RTX 4090 D"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("NVIDIA GeForce RTX 2080 Ti", "GeForce RTX 2080 Ti"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("AMD Instinct MI300X", "Instinct MI300X"),
        ("rtx4090", "GeForce RTX 4090"),
        ("4090", "GeForce RTX 4090"),
    ],
)
def test_a_printed_name_is_one_model(printed, model):
    assert gpus.find_gpu(printed).model == model


def test_every_model_and_printed_name_finds_itself():
    for gpu in gpus.gpus():
        for name in (gpu.model, *gpu.printed_names):
            assert gpus.match_gpus(name) == (gpu,), name


def test_a_family_name_is_all_its_variants():
    assert {gpu.model for gpu in gpus.match_gpus("H100")} == {
        "H100 PCIe 80GB",
        "H100 SXM5 80GB",
        "H100 NVL 94GB",
    }
    with pytest.raises(UserError, match="H100 PCIe 80GB, H100 SXM5 80GB"):
        gpus.find_gpu("H100")
    assert gpus.identify("H100").capability == "9.0"  # which is enough to choose versions


def test_an_ambiguous_name_of_different_cards_is_refused():
    with pytest.raises(UserError, match="RTX A6000, RTX 6000 Ada"):
        gpus.identify("RTX 6000")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match="did you mean GeForce RTX 4090"):
        gpus.identify("RTX 4091")


@pytest.mark.parametrize(
    ("text", "name", "capability"),
    [
        ("10de:2684", "GeForce RTX 4090", "8.9"),
        ("10DE:2684", "GeForce RTX 4090", "8.9"),
        ("0x102d", "Tesla K80", "3.7"),
        ("1002:74a1", "Instinct MI300X", "gfx942"),
        ("GTX 980", "GeForce GTX 980", "5.2"),  # only in pci_ids.csv
        ("RTX 3070", "GeForce RTX 3070", "8.6"),
        ("sm_86", "compute capability 8.6", "8.6"),
        ("12.0", "compute capability 12.0", "12.0"),
        ("gfx950", "gfx950", "gfx950"),
    ],
)
def test_identify(text, name, capability):
    device = gpus.identify(text)
    assert (device.name, device.capability) == (name, capability)


@pytest.mark.parametrize("text", ["10de:ffff", "10de:zz", "sm_66", "gfx000", "", "???"])
def test_identify_refuses_with_a_sentence(text):
    with pytest.raises(UserError):
        gpus.identify(text)


@given(st.text(max_size=30))
def test_identify_never_breaks(text):
    try:
        capability = gpus.identify(text).capability
    except UserError:
        return  # a sentence instead of a card
    assert capability


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ubuntu-24.04", "ubuntu-24.04"),
        ("Ubuntu 24.04 LTS", "ubuntu-24.04"),
        ("Rocky Linux 9.4", "rocky-9"),
        ("rhel-8.10", "rhel-8"),
        ("RedHat 9", "rhel-9"),
        ("AlmaLinux 9", "almalinux-9"),
        ("debian:12", "debian-12"),
        ("centos7", "centos-7"),
        ("Amazon Linux 2023", "amzn-2023"),
    ],
)
def test_find_os(text, name):
    assert systems.find_os(text).name == name


def test_an_unknown_system_gets_examples():
    with pytest.raises(UserError, match=r"'ubuntu-19.10' is not known: write one such as ubuntu-"):
        systems.find_os("ubuntu-19.10")


def test_branch_of_a_version():
    assert drivers.driver_branch("580.65.06").branch == 580
    assert drivers.driver_branch("R535").kind == "LTSB"
    with pytest.raises(UserError, match="not a driver version"):
        drivers.driver_branch("latest")
    with pytest.raises(UserError, match="branch 585 is not known"):
        drivers.driver_branch("585.1")


def test_a_branch_ends_after_its_last_month():
    row = drivers.driver_branch("590")  # ends in December 2026
    assert not row.ended_by(date(2026, 12, 31))
    assert row.ended_by(date(2027, 1, 1))


def test_torch_release_of_a_version():
    assert str(frameworks.torch_release("2.14.1+cu130").cuda_default) == "13.0"
    with pytest.raises(UserError, match=r"torch 9.9 is not known: torch_releases.csv has 1.8 to 2.15"):
        frameworks.torch_release("9.9")


def test_sibling_xids_share_a_row():
    assert signals.xids()[41] is signals.xids()[39]  # copy engines
    assert signals.xids()[79].severity == "fatal"  # fallen off the bus


def test_versions_compare_by_number():
    assert Version("2.9") < Version("2.10")
    assert Version("13") == Version("13.0")
    assert hash(Version("13")) == hash(Version("13.0"))
    assert Version("580") < Version("580.65.06")
    with pytest.raises(ValueError, match="dotted version"):
        Version("2.9a")
