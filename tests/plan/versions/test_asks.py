"""Words, files and machines turned into requests."""

from __future__ import annotations

from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.facts.version import Version
from stoker.plan.versions.asks import parse_requirement, parse_version_ask, read_requirements
from stoker.plan.versions.machine import ids_of_lspci, read_driver, read_machine
from stoker.plan.versions.request import build_request


@pytest.mark.parametrize(
    ("text", "name", "label", "yes", "no"),
    [
        ("torch==1.13.1+cu117", "torch", "cu117", "1.13.1", "1.13.0"),
        ("torch 2.9", "torch", "", "2.9.1", "2.10.0"),
        ("torch 2.9.1", "torch", "", "2.9.1", "2.9.0"),
        ("torch>=2.5,<2.7", "torch", "", "2.6.0", "2.7.0"),
        ("torch~=2.9.0", "torch", "", "2.9.1", "2.10.0"),
        ("numpy", "numpy", "", "2.3.0", None),
        ("tensorflow[and-cuda]==2.20.*", "tensorflow", "", "2.20.1", "2.21.0"),
        ("torch==2.9.1; python_version >= '3.10'", "torch", "", "2.9.1", "2.9.0"),
    ],
)
def test_requirements(text, name, label, yes, no):
    ask = parse_requirement(text)
    assert (ask.name, ask.label) == (name, label)
    assert ask.allows(Version(yes))
    assert no is None or not ask.allows(Version(no))


@pytest.mark.parametrize("text", ["torch==", "torch=2.9", "==2.9", "torch 2.x"])
def test_what_is_no_requirement_is_refused(text):
    with pytest.raises(UserError, match="is not a requirement"):
        parse_requirement(text)


@pytest.mark.parametrize("text", ["2.9", "==2.9.*", "torch==2.9.1", ">=2.9"])
def test_a_version_can_be_given_in_any_form(text):
    assert parse_version_ask("torch", text).allows(Version("2.9.1"))


def test_a_requirements_file_gives_asks_and_indexes(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text(
        "# training\n"
        "--extra-index-url https://download.pytorch.org/whl/cu126\n"
        "torch==2.9.1  # the newest that we tested\n"
        "numpy<2\n"
        "-e .\n"
        "git+https://example.org/x.git\n"
        "./local.whl\n"
    )
    asks, indexes = read_requirements(path)
    assert [ask.name for ask in asks] == ["torch", "numpy"]
    assert indexes == ["pypi", "cu126"]


@pytest.mark.parametrize(
    ("line", "indexes"),
    [
        ("--index-url https://download.pytorch.org/whl/cu118", ["cu118"]),
        ("-i https://mirror.example.org/simple", ["pypi"]),
        ("numpy", None),
    ],
)
def test_the_indexes_of_a_requirements_file(tmp_path, line, indexes):
    path = tmp_path / "requirements.txt"
    path.write_text(f"{line}\ntorch\n")
    assert read_requirements(path)[1] == indexes


def test_all_mistakes_of_a_file_are_shown_with_their_lines(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("torch==\nnumpy\nvision=1\n")
    with pytest.raises(UserError) as caught:
        read_requirements(path)
    assert [mistake.where for mistake in caught.value.mistakes] == [f"{path}:1", f"{path}:3"]


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_requirements(tmp_path / "none.txt")


def test_all_mistakes_of_a_request_are_shown_at_once():
    with pytest.raises(UserError) as caught:
        build_request(gpus=["RTX 4091"], driver="new", os="beos", python="three", glibc="x")
    assert len(caught.value.mistakes) == 5


def test_the_platform_follows_the_card():
    assert build_request(gpus=["GH200"]).platform == "aarch64"
    assert build_request(gpus=["H100"]).platform == "x86_64"


LSPCI = """\
00:02.0 Non-VGA unclassified device [0000]: Example [8086:0001]
17:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100 SXM2 16GB] [10de:1db1] (rev a1)
17:00.1 Audio device [0403]: NVIDIA Corporation GV100 audio [10de:10f2] (rev a1)
65:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)
"""


def test_lspci_gives_display_controllers_only(tmp_path):
    assert ids_of_lspci(LSPCI) == ["10de:1db1", "10de:2684"]
    path = tmp_path / "lspci.txt"
    path.write_text(LSPCI)
    assert [device.capability for device in build_request(lspci=path).devices] == ["7.0", "8.9"]


def test_an_lspci_without_cards_is_a_sentence(tmp_path):
    path = tmp_path / "lspci.txt"
    path.write_text("00:00.0 Host bridge [0600]: x [8086:0001]\n")
    with pytest.raises(UserError, match="no NVIDIA or AMD card"):
        build_request(lspci=path)


def a_machine(root: Path, cards: list[tuple[str, str]], driver: str = "") -> Path:
    """A made-up file system with these PCI cards (vendor, device) and this /proc/driver/nvidia/version."""
    for number, (vendor, device) in enumerate(cards):
        folder = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        folder.mkdir(parents=True)
        (folder / "class").write_text("0x030200\n")
        (folder / "vendor").write_text(f"0x{vendor}\n")
        (folder / "device").write_text(f"0x{device}\n")
    (root / "etc").mkdir()
    (root / "etc/os-release").write_text('ID=rocky\nVERSION_ID="9.4"\n')
    if driver:
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(driver)
    return root


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (builder)\n"
CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n"


def test_a_machine_is_read_from_its_files(tmp_path):
    machine = read_machine(a_machine(tmp_path, [("10de", "2330")] * 2 + [("10de", "ffff")], OPEN))
    assert [device.name for device in machine.devices] == ["H100 SXM5 80GB"] * 2
    assert len(machine.kinds) == 1
    assert machine.unknown_ids == ("10de:ffff",)
    assert (str(machine.driver), machine.open_modules) == ("580.65.06", True)
    assert machine.os is not None
    assert machine.os.name == "rocky-9"
    request = build_request(machine=machine)
    assert request.multi_gpu is True
    assert str(request.driver) == "580.65.06"
    assert request.open_modules is True


def test_what_is_given_goes_before_what_was_read(tmp_path):
    machine = read_machine(a_machine(tmp_path, [("10de", "2330")], OPEN))
    request = build_request(machine=machine, gpus=["T4"], driver="535", os="ubuntu-22.04", python="3.10")
    assert [device.name for device in request.devices] == ["Tesla T4"]
    assert (str(request.driver), request.os.name, request.python) == ("535", "ubuntu-22.04", "3.10")


@pytest.mark.parametrize(
    ("text", "version", "open_"),
    [(OPEN, "580.65.06", True), (CLOSED, "535.104.05", False), ("x", None, None)],
)
def test_both_forms_of_the_driver_file(tmp_path, text, version, open_):
    path = tmp_path / "version"
    path.write_text(text)
    found, is_open = read_driver(path)
    assert (found and str(found), is_open) == (version, open_)


def test_a_machine_without_anything_is_empty(tmp_path):
    machine = read_machine(tmp_path)
    assert (machine.devices, machine.driver, machine.os) == ((), None, None)
