"""No two tables contradict each other. Where the world does, the exception stands here with its reason."""

from __future__ import annotations

import importlib.metadata
import re

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from stoker.facts import drivers, frameworks, gpus, systems
from stoker.facts.version import Version

ARCHITECTURES = ["Kepler", "Maxwell", "Pascal", "Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"]


def sm(text):
    return int(re.sub(r"\D", "", text))


def test_gpus_and_pci_ids_agree():
    for gpu in gpus.gpus():
        for device_id in gpu.pci_device_ids:
            pci = gpus.pci_devices()["10de" if gpu.vendor == "NVIDIA" else "1002", device_id]
            assert pci.capability == gpu.capability, gpu.model
            assert pci.architecture == gpu.architecture, gpu.model


def test_a_pci_id_belongs_to_one_model():
    shared = {"25b6": {"A2", "A16"}}  # told apart by the subsystem id only (pci.ids): both are 8.6
    models: dict[str, set[str]] = {}
    for gpu in gpus.gpus():
        for device_id in gpu.pci_device_ids:
            models.setdefault(device_id, set()).add(gpu.model)
    assert {key: names for key, names in models.items() if len(names) > 1} == shared


def test_every_nvidia_capability_has_a_row_of_the_same_architecture():
    for pci in gpus.pci_devices().values():
        if pci.vendor == "NVIDIA":
            assert drivers.capabilities()[pci.capability].architecture == pci.architecture, pci


def test_driver_branches_and_capabilities_agree_on_the_oldest_card():
    for row in drivers.capabilities().values():
        if row.driver_last is None:
            continue
        age = ARCHITECTURES.index(row.architecture)
        for branch in drivers.driver_branches():
            oldest = ARCHITECTURES.index(branch.oldest_architecture)
            assert (branch.branch <= row.driver_last) == (oldest <= age), (row.capability, branch.branch)


def test_capabilities_and_toolkits_agree_on_the_architectures():
    for cap in drivers.capabilities().values():
        if cap.architecture == "Rubin":
            continue  # the ranges of 13.4 and 13.5 name sm_107 in a note only
        for release in drivers.cuda_releases():
            if cap.cuda_last is not None and release.cuda > cap.cuda_last:
                assert sm(cap.capability) < sm(release.sm_min), (cap.capability, release.release)
            elif release.cuda >= cap.cuda_first:
                assert sm(release.sm_min) <= sm(cap.capability) <= sm(release.sm_max), (cap, release)


def test_a_branch_that_ends_names_a_living_one_instead():
    living = {row.branch for row in drivers.driver_branches() if row.status == "supported"}
    for row in drivers.driver_branches():
        if row.status == "ended":
            assert row.instead in living, row.branch
            assert row.instead_reason, row.branch
        if row.instead is not None:
            assert row.instead > row.branch


def test_the_exact_driver_of_a_toolkit_is_of_the_branch_that_reports_it():
    not_listed = {"10.0"}  # shipped with 410, which ended before the branches that drivers.csv starts with
    for release in drivers.cuda_releases():
        if release.driver_exact is None or str(release.cuda) in not_listed:
            continue
        branch = drivers.driver_branch(str(release.driver_exact))
        assert branch.max_cuda == release.cuda, release.release


def test_the_newest_cuda_of_a_branch_is_a_known_toolkit():
    never_released = {565: "12.7"}  # nvidia-smi of 565 shows 12.7, but there was no such toolkit
    known = {str(row.cuda) for row in drivers.cuda_releases()}
    for branch in drivers.driver_branches():
        if never_released.get(branch.branch) != str(branch.max_cuda):
            assert str(branch.max_cuda) in known, branch.branch


def test_the_minor_version_floor_is_one_per_major():
    floors: dict[int, set[str]] = {}
    for row in drivers.cuda_releases():
        floors.setdefault(row.cuda.major, set()).add(str(row.driver_minor))
    assert floors == {10: {"None"}, 11: {"450.80.02"}, 12: {"525.60.13"}, 13: {"580"}}


def test_min_driver_is_the_lower_of_exact_and_floor():
    assert str(drivers.min_driver(Version("13.2"))) == "580"
    assert str(drivers.min_driver(Version("12.6"))) == "525.60.13"
    assert str(drivers.min_driver(Version("10.2"))) == "440.33"
    # CUDA 11.0 came with 450.51.05; the floor of 11.x, 450.80.02, was set later and is higher.
    assert str(drivers.min_driver(Version("11.0"))) == "450.51.05"


def test_published_variants_are_builds_and_the_other_way_round():
    for release in frameworks.torch_releases():
        builds = [b for b in frameworks.torch_builds() if b.torch == release.torch and b.platform == "x86_64"]
        assert {b.cuda for b in builds if b.published == "yes"} == set(release.cuda_published), release.torch
        assert {b.cuda for b in builds if b.published == "unsure"} == set(release.cuda_unconfirmed)
        assert [b.cuda for b in builds if b.index == "pypi"] == [release.cuda_default], release.torch


def test_builds_name_the_index_of_their_cuda():
    for build in frameworks.torch_builds():
        assert build.index in ("pypi", "", f"cu{str(build.cuda).replace('.', '')}"), build
        assert (build.index == "") == (build.published == "no"), build


def test_builds_hold_only_code_that_their_toolkit_can_make():
    for build in frameworks.torch_builds():
        toolkit = drivers.cuda_release(build.cuda)
        for item in build.sm_list:
            assert sm(toolkit.sm_min) <= sm(item) <= sm(toolkit.sm_max), (build.torch, build.cuda, item)
        assert list(build.sm_list) == sorted(build.sm_list, key=sm)


def test_torch_pins_are_in_the_cudnn_and_nccl_tables():
    static = {("1.13", "11.7")}  # NCCL linked into the wheel: any version can be, a package need not exist
    for release in frameworks.torch_releases():
        variants = {str(cuda) for cuda in release.cuda_published}
        assert set(release.cudnn) == variants, release.torch
        assert set(release.nccl) <= variants, release.torch
        for cuda, version in release.cudnn.items():
            row = frameworks.cudnn_release(version)
            assert row is not None, (release.torch, cuda, version)
            assert Version(cuda).major in {item.major for item in row.cuda}, (release.torch, cuda)
        for cuda, version in release.nccl.items():
            row = frameworks.nccl_release(version)
            assert row is not None, (release.torch, cuda, version)
            if (str(release.torch), cuda) not in static:
                assert Version(cuda).major in row.cuda_majors, (release.torch, cuda)


def test_a_pinned_cudnn_is_not_newer_than_its_torch():
    for release in frameworks.torch_releases():
        for version in release.cudnn.values():
            row = frameworks.cudnn_release(version)
            assert row is not None
            assert row.release_month <= release.release_date[:7], (release.torch, version)


def test_cudnn_drops_a_card_no_later_than_cuda_does():
    for row in frameworks.cudnn_releases():
        if row.sm_min and set(map(str, row.cuda)) == {"13"}:
            assert sm(row.sm_min) >= 75, row.cudnn


def test_partners_have_a_version_for_each_patch_or_a_floor():
    for release in frameworks.torch_releases():
        assert list(release.patches) == sorted(release.patches)
        assert {(patch.major, patch.minor) for patch in release.patches} == {(release.torch.major, release.torch.minor)}
        for partners, requires in (
            (release.torchvision, release.torchvision_requires),
            (release.torchaudio, release.torchaudio_requires),
        ):
            assert partners, release.torch
            if "exact patch" in requires:
                assert len(partners) == len(release.patches), release.torch


def test_releases_stand_in_order():
    versions = [release.torch for release in frameworks.torch_releases()]
    assert versions == sorted(versions)
    dates = [release.release_date for release in frameworks.torch_releases()]
    assert dates == sorted(dates)


def test_tensorflow_pins_name_releases_in_the_tables():
    for row in frameworks.tensorflow_releases():
        drivers.cuda_release(row.cuda)
        if row.cudnn_pin:
            taken = [c for c in frameworks.cudnn_releases() if SpecifierSet(row.cudnn_pin).contains(str(c.cudnn))]
            assert taken, row.tensorflow
            assert all(row.cuda.major in {item.major for item in c.cuda} for c in taken if str(c.cudnn) < "9.28.1")
            assert row.cudnn.parts[:2] == min(c.cudnn for c in taken).parts[:2], row.tensorflow
        if row.nccl_pin:
            assert any(SpecifierSet(row.nccl_pin).contains(str(n.nccl)) for n in frameworks.nccl_releases())


def test_the_binary_rules_are_the_general_rule_but_for_jetson_chips():
    jetson = {"5.3", "6.2", "7.2", "8.7", "10.1", "11.0"}  # embedded chips run their own code only
    for rule in frameworks.binary_rules():
        own = f"{rule.sm[3:-1]}.{rule.sm[-1]}"
        for capability in {c for r in frameworks.binary_rules() for c in r.runs_on} - jetson:
            same_major = capability.split(".")[0] == own.split(".")[0]
            expected = same_major and int(capability.split(".")[1]) >= int(own.split(".")[1])
            if own not in jetson:
                assert frameworks.runs_on(rule.sm, capability) == expected, (rule.sm, capability)


@pytest.mark.parametrize(
    ("sm_", "capability", "cuda", "runs"),
    [
        ("sm_86", "8.9", None, True),  # Ada loads Ampere's code
        ("sm_80", "9.0", None, False),  # another major
        ("sm_89", "8.6", None, False),  # older card, newer code
        ("sm_100", "10.3", None, True),
        ("sm_100", "12.0", None, False),
        ("sm_120", "12.1", None, True),
        ("sm_37", "3.7", None, True),
        ("sm_37", "3.5", None, False),
        ("sm_35", "3.7", None, True),
        ("sm_80", "8.7", "13.0", False),
        ("sm_80", "8.7", "13.2", True),  # builds with CUDA 13.2 accept it
    ],
)
def test_runs_on(sm_, capability, cuda, runs):
    assert frameworks.runs_on(sm_, capability, Version(cuda) if cuda else None) is runs


def test_install_recipes_name_known_systems_and_branches():
    systems_ = {(row.id, row.version) for row in systems.os_releases()}
    branches = {row.branch: row for row in drivers.driver_branches()}
    for row in drivers.driver_installs():
        assert {(row.os, version) for version in row.versions} <= systems_, row
        assert row.branch_first in branches
        assert row.branch_last is None or row.branch_last in branches
        if row.flavour == "open":
            assert branches[row.branch_first].open_modules, row


def test_rocm_builds_belong_to_known_releases():
    known = {release.torch for release in frameworks.torch_releases()}
    assert {build.torch for build in frameworks.rocm_builds()} <= known
    assert all(build.index == f"rocm{build.rocm}" for build in frameworks.rocm_builds())


def test_links_are_twice_as_fast_both_ways():
    from stoker.facts.signals import links

    for link in links():
        if link.one_way_gb_s is not None and link.both_ways_gb_s is not None:
            assert link.both_ways_gb_s == pytest.approx(2 * link.one_way_gb_s), link.link
        doubted = "H100 PCIe / NVL pair" in link.link  # its one report was probably a missing bridge: notes
        if link.measured_high_gb_s is not None and link.floor_gb_s is not None and not doubted:
            assert link.floor_gb_s <= link.measured_high_gb_s, link.link


def test_nvlink_of_gpus_and_links_agree():
    from stoker.facts.signals import links

    both = {link.link: link.both_ways_gb_s for link in links()}
    pairs = {
        "Tesla P100 SXM2 16GB": "NVLink 1 P100 (4 links)",
        "Tesla V100 SXM2 16GB": "NVLink 2 V100 (6 links)",
        "A100 SXM4 80GB": "NVLink 3 A100 (12 links, NVSwitch)",
        "A800 SXM4 80GB": "NVLink 3 A800 SXM (8 links)",
        "H100 SXM5 80GB": "NVLink 4 H100 SXM (18 links, NVSwitch)",
        "H200 SXM 141GB": "NVLink 4 H200 SXM",
        "H800 SXM5 80GB": "NVLink 4 H800 SXM",
        "B200 SXM 180GB": "NVLink 5 B200 / GB200 (18 links, NVSwitch)",
        "Instinct MI300X": "MI300X Infinity Fabric (7 links)",
    }
    for model, link in pairs.items():
        assert gpus.find_gpu(model).peer_link_gb_s == both[link], model


def test_nvlink_of_a_card_for_a_slot_is_a_bridge():
    for gpu in gpus.gpus():
        if gpu.peer_link.startswith("NVLink"):
            assert gpu.peer_link_bridge == gpu.form_factor.startswith("PCIe"), gpu.model


def test_the_installed_torch_pins_what_its_row_says():
    """The one row that can be read from a real wheel here."""
    try:
        version = importlib.metadata.version("torch").split("+")[0]
        lines = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("no torch is installed to compare with")
    pins = {(r := Requirement(line)).name: str(r.specifier) for line in lines}
    if "nvidia-cudnn-cu13" not in pins:
        pytest.skip("the installed torch is not the CUDA 13 wheel")
    row = frameworks.torch_release(version)
    cuda = str(row.cuda_default)
    assert pins["nvidia-cudnn-cu13"] == f"=={row.cudnn[cuda]}"
    assert pins["nvidia-nccl-cu13"] == f"=={row.nccl[cuda]}"
    assert pins["triton"] == row.triton
    assert pins["cuda-toolkit"] == f"=={row.cuda_runtime_pin}"
