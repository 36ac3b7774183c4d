"""The PCI tree: cards, the bridges above them, their links, address windows, error counters, ACS and IOMMU."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stoker.host.probing import Notes, integer, matching, names_of, number, printed, text_of
from stoker.host.source import Source, Unreadable

FOLDER = "/sys/bus/pci/devices"
NVIDIA, AMD, MELLANOX = "10de", "1002", "15b3"
Role = Literal["gpu", "nvswitch", "nic", "nvme", "bridge", "other"]

GENERATION_OF_SPEED = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCI Express generation by transfer rate in GT/s (PCI-SIG)."""


@dataclass(frozen=True)
class PciDevice:
    """A device on the PCI bus.

    Attributes:
        address: `0000:18:00.0`.
        kind: Its class code in hex, six digits: `030200`.
        driver: What is bound to it; empty if nothing is.
        parents: Addresses of the bridges above it, the root port first.
        generation: PCI Express generation of the link now, `generation_max` at most; `width` its lanes. None if
            the device does not say.
        numa: Its NUMA node; None if unknown, as on machines of one node.
        cpus: The CPUs near it, as a list.
        group: Its IOMMU group; empty if it is in none.
        bars: Sizes of its address windows in bytes, by number.
        unassigned: Numbers of windows that the firmware gave no address.
        correctable: Errors that the link mended, `uncorrectable` those it did not, since boot (AER); None if unknown.
        redirects: Whether ACS of this bridge sends peer-to-peer traffic up to the root; None if unknown.
    """

    address: str
    vendor: str
    device: str
    kind: str
    role: str = "other"
    driver: str = ""
    parents: tuple[str, ...] = ()
    generation: int | None = None
    generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    numa: int | None = None
    cpus: str = ""
    group: str = ""
    bars: dict[str, int] | None = None
    unassigned: tuple[int, ...] = ()
    correctable: int | None = None
    uncorrectable: int | None = None
    redirects: bool | None = None


@dataclass(frozen=True)
class Pci:
    """The PCI tree, without what concerns no GPU.

    Attributes:
        devices: GPUs, NVSwitches, network cards, NVMe disks, and the bridges.
        iommu: Whether an IOMMU translates; None if unknown.
        iommu_types: Kinds of the default domains: `identity` (pass-through), `DMA`, `DMA-FQ`.
    """

    devices: tuple[PciDevice, ...] = ()
    iommu: bool | None = None
    iommu_types: tuple[str, ...] = ()

    def of(self, *roles: Role) -> tuple[PciDevice, ...]:
        """The devices of these roles."""
        return tuple(device for device in self.devices if device.role in roles)

    def gpus(self) -> tuple[PciDevice, ...]:
        """NVIDIA's GPUs."""
        return tuple(device for device in self.devices if device.role == "gpu" and device.vendor == NVIDIA)

    def by_address(self) -> dict[str, PciDevice]:
        """All devices by address."""
        return {device.address: device for device in self.devices}


def read(source: Source, notes: Notes) -> Pci:
    """Read the section."""
    names = notes.take("devices", source.names(FOLDER)) or ()
    redirects = acs_of(printed(source.run(["lspci", "-D", "-vv", "-d", "::0604"])))
    devices = tuple(
        device
        for address in matching(names, r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
        if (device := _device(source, address, redirects)) is not None
    )
    return Pci(devices, *_iommu(source, notes, devices))


def bus_id(text: str) -> str:
    """An address in one form: `00000000:3B:00.0` of nvidia-smi becomes `0000:3b:00.0`."""
    match = re.fullmatch(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", text.strip().lower())
    if match is None:
        return text.strip().lower()
    return f"{int(match[1] or '0', 16):04x}:{match[2]}:{match[3]}.{match[4] or '0'}"


def role_of(kind: str, vendor: str) -> Role:
    """What a device is for, by its class code (PCI Code and ID Assignment) and vendor."""
    if kind.startswith("03") and vendor in (NVIDIA, AMD):
        return "gpu"
    if kind.startswith("0680") and vendor == NVIDIA:
        return "nvswitch"
    if kind.startswith(("0200", "0207")):
        return "nic"
    if kind.startswith("0108"):
        return "nvme"
    return "bridge" if kind.startswith("0604") else "other"


def generation(speed: str) -> int | None:
    """PCI Express generation of a speed such as `16.0 GT/s PCIe`."""
    rate = number(speed)
    return GENERATION_OF_SPEED.get(rate) if rate is not None else None


def parents_of(link: str) -> tuple[str, ...]:
    """Bridges above a device, from where it lies: `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`."""
    found = re.findall(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?=/|$)", link)
    return tuple(found[:-1])


def windows_of(resource: str) -> tuple[dict[str, int], tuple[int, ...]]:
    """Sizes of the six windows in sysfs's `resource`, and those that have a size but no address."""
    sizes: dict[str, int] = {}
    unassigned: list[int] = []
    for place, line in enumerate(resource.splitlines()[:6]):
        words = [integer(word) for word in line.split()]
        if len(words) != 3 or None in words:
            continue
        start, end, flags = (word or 0 for word in words)
        if end > start:
            sizes[str(place)] = end - start + 1
        if flags & 0x20000000:  # IORESOURCE_UNSET of include/linux/ioport.h
            unassigned.append(place)
    return sizes, tuple(unassigned)


def total_errors(aer: str) -> int | None:
    """The last line of sysfs's `aer_dev_*`: `TOTAL_ERR_COR 12`."""
    match = re.search(r"^TOTAL_ERR_\w+\s+(\d{1,18})", aer, re.MULTILINE)
    return int(match[1]) if match else None


def acs_of(text: str) -> dict[str, bool]:
    """Whether each bridge redirects peer-to-peer requests, from `lspci -vv`; those that do not say are left out."""
    found: dict[str, bool] = {}
    address = ""
    for line in text.splitlines():
        if match := re.match(r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ", line):
            address = bus_id(match[1])
        elif address and "ACSCtl:" in line:
            found[address] = "ReqRedir+" in line
    return found


def _device(source: Source, address: str, redirects: dict[str, bool]) -> PciDevice | None:
    folder = f"{FOLDER}/{address}"

    def text(name: str) -> str:
        return text_of(source.read(f"{folder}/{name}")).strip()

    kind, vendor = text("class").removeprefix("0x"), text("vendor").removeprefix("0x")
    role = role_of(kind, vendor)
    if role == "other":
        return None
    numa = integer(text("numa_node"))
    endpoint = role != "bridge"
    bars, unassigned = windows_of(text("resource")) if role == "gpu" else (None, ())
    return PciDevice(
        address,
        vendor,
        text("device").removeprefix("0x"),
        kind,
        role,
        driver=_last(source.link(f"{folder}/driver")) if endpoint else "",
        parents=parents_of(text_of(source.link(folder))),
        generation=generation(text("current_link_speed")),
        generation_max=generation(text("max_link_speed")),
        width=_width(text("current_link_width")),
        width_max=_width(text("max_link_width")),
        numa=numa if numa is not None and numa >= 0 else None,
        cpus=text("local_cpulist") if endpoint else "",
        group=_last(source.link(f"{folder}/iommu_group")) if endpoint else "",
        bars=bars,
        unassigned=unassigned,
        correctable=total_errors(text("aer_dev_correctable")) if role == "gpu" else None,
        uncorrectable=total_errors(text("aer_dev_fatal")) if role == "gpu" else None,
        redirects=redirects.get(address),
    )


def _width(text: str) -> int | None:
    """Lanes; sysfs prints 0, 63 or 255 where the device has no link or does not answer."""
    lanes = integer(text)
    return lanes if lanes is not None and 0 < lanes <= 32 else None


def _last(link: str | Unreadable) -> str:
    return text_of(link).rpartition("/")[2]


def _iommu(source: Source, notes: Notes, devices: tuple[PciDevice, ...]) -> tuple[bool | None, tuple[str, ...]]:
    units = source.names("/sys/class/iommu")
    if isinstance(units, Unreadable) and units.kind != "missing":
        notes.note("iommu", units.reason)
        return None, ()
    groups = sorted({device.group for device in devices if device.group})
    types = {text_of(source.read(f"/sys/kernel/iommu_groups/{group}/type")).strip() for group in groups}
    return bool(names_of(units)), tuple(sorted(types - {""}))


def bridges_above(pci: Pci, device: PciDevice) -> Iterator[PciDevice]:
    """The bridges above a device, the nearest first."""
    by_address = pci.by_address()
    for address in reversed(device.parents):
        if address in by_address:
            yield by_address[address]
