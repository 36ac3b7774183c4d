"""Reads what this machine is: cards, driver, operating system. Nothing else in the package looks outside."""

from __future__ import annotations

import os
import platform as platform_module
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import UserError
from stoker.facts.gpus import Device, identify
from stoker.facts.systems import OsRelease, find_os
from stoker.facts.version import Version
from stoker.plan.versions.model import Platform

_DISPLAY = re.compile(r"0x03")
"""PCI base class of display controllers, which data-centre cards (3D controllers) belong to as well."""


@dataclass(frozen=True)
class Machine:
    """What could be read; None and empty where it could not.

    Attributes:
        devices: One entry per card, in bus order.
        unknown_ids: PCI ids of display controllers of NVIDIA and AMD that are in no table.
        open_modules: Whether the loaded driver is the open flavour.
    """

    devices: tuple[Device, ...]
    unknown_ids: tuple[str, ...]
    driver: Version | None
    open_modules: bool | None
    os: OsRelease | None
    glibc: Version | None
    platform: Platform
    python: str

    @property
    def kinds(self) -> tuple[Device, ...]:
        """Each kind of card once."""
        return tuple(dict.fromkeys(self.devices))


def read_machine(root: Path = Path("/")) -> Machine:
    """Reads the machine whose file system is at `root`; C library and processor are its own."""
    ids = _pci_ids(root / "sys/bus/pci/devices")
    devices, unknown = recognise(ids)
    driver, open_modules = read_driver(root / "proc/driver/nvidia/version")
    machine = platform_module.machine()
    return Machine(
        devices=devices,
        unknown_ids=unknown,
        driver=driver,
        open_modules=open_modules,
        os=_os(root / "etc/os-release"),
        glibc=_glibc(),
        platform="aarch64" if machine in ("aarch64", "arm64") else "x86_64",
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
    )


def recognise(pci_ids: Sequence[str]) -> tuple[tuple[Device, ...], tuple[str, ...]]:
    """The cards behind PCI ids such as `10de:2684`, and the ids that are in no table."""
    devices: list[Device] = []
    unknown: list[str] = []
    for pci_id in pci_ids:
        try:
            devices.append(identify(pci_id))
        except UserError:
            unknown.append(pci_id)
    return tuple(devices), tuple(unknown)


def ids_of_lspci(text: str) -> list[str]:
    """The ids of display controllers in the output of `lspci -nn`.

    >>> ids_of_lspci("01:00.0 VGA compatible controller [0300]: AD102 [10de:2684] (rev a1)")
    ['10de:2684']
    """
    return re.findall(r"\[03\d\d\].*\[((?:10de|1002):[0-9a-f]{4})\]", text)


def read_driver(path: Path) -> tuple[Version | None, bool | None]:
    """Version and flavour of the loaded driver from /proc/driver/nvidia/version; None where there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, None
    match = re.search(r"NVRM version:.*?Kernel Module.*?\s(\d{3}\.[\d.]+)", text)
    return (Version(match[1]), "Open Kernel Module" in text) if match else (None, None)


def _pci_ids(folder: Path) -> list[str]:
    ids: list[str] = []
    for device in sorted(folder.glob("*")):
        try:
            kind, vendor, number = (
                (device / name).read_text(encoding="ascii").strip() for name in ("class", "vendor", "device")
            )
        except OSError:
            continue
        if _DISPLAY.match(kind) and vendor in ("0x10de", "0x1002"):
            ids.append(f"{vendor[2:]}:{number[2:]}")
    return ids


def _os(path: Path) -> OsRelease | None:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError:
        return None
    values = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', text, re.MULTILINE))
    try:
        return find_os(f"{values.get('ID', '')}-{values.get('VERSION_ID', '')}")
    except UserError:
        return None


def _glibc() -> Version | None:
    try:
        text = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (OSError, ValueError):
        return None
    match = re.fullmatch(r"glibc (\d+\.\d+)", text)
    return Version(match[1]) if match else None
