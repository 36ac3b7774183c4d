"""The machine without its GPUs: counters of the kernel, from /proc and /sys."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from stoker.monitor.model import Disk, Filesystem, Host, InfinibandPort, Interface

CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
SECTOR = 512  # bytes: the unit of /proc/diskstats whatever the disk's own is
KIB = 1024
_NVIDIA, _DISPLAY_CLASS = "0x10de", "0x03"
_REAL = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "overlay", "vfat",
                   "nfs", "nfs4", "cifs", "smb3", "lustre", "ceph", "beegfs", "gpfs", "glusterfs", "wekafs",
                   "9p", "virtiofs", "fuse.ceph", "fuse.juicefs", "fuse.s3fs", "fuse.mergerfs"})  # fmt: skip
"""File systems that hold data. All others are the kernel's own, such as proc and tmpfs."""
_IB_ERRORS = ("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards",
              "local_link_integrity_errors", "excessive_buffer_overrun_errors", "VL15_dropped")  # fmt: skip
_IB_LANE_WORD = 4  # bytes: the unit of port_rcv_data and port_xmit_data


def read_host(proc: Path = Path("/proc"), sys: Path = Path("/sys"), shm: Path = Path("/dev/shm")) -> Host:
    """All counters but those of file systems, whose answer may take for ever.

    Args:
        proc: The kernel's process file system.
        sys: The kernel's device file system.
        shm: Shared memory.
    """
    stat = _text(proc / "stat")
    memory = meminfo(_text(proc / "meminfo"))
    size, used = _shm(shm)
    return Host(
        cpus=sum(line.startswith("cpu") and line[3:4].isdigit() for line in stat.splitlines()) or None,
        cpu_seconds=cpu_seconds(stat, os.sysconf("SC_CLK_TCK")),
        pressure_seconds=_pressures(proc / "pressure"),
        load1=_first_number(_text(proc / "loadavg")),
        memory_total_bytes=memory.get("MemTotal"),
        memory_available_bytes=memory.get("MemAvailable"),
        shm_size_bytes=size,
        shm_used_bytes=used,
        boot_time_seconds=next((float(line[6:]) for line in stat.splitlines() if line.startswith("btime ")), None),
        gpus_on_bus=_gpus_on_bus(sys / "bus/pci/devices"),
        disks=tuple(disks(_text(proc / "diskstats"), _whole_disks(sys / "block"))),
        interfaces=tuple(interfaces(_text(proc / "net/dev"), sys / "class/net")),
        infiniband=tuple(_infiniband(sys / "class/infiniband")),
    )


def cpu_seconds(stat: str, ticks_per_second: int) -> dict[str, float]:
    """The first line of /proc/stat, by mode. Guests are part of `user` and are not told apart."""
    numbers = stat.partition("\n")[0].split()[1:]
    return {mode: int(ticks) / ticks_per_second for mode, ticks in zip(CPU_MODES, numbers, strict=False)}


def meminfo(text: str) -> dict[str, float]:
    """/proc/meminfo in bytes."""
    rows = (line.split() for line in text.splitlines())
    return {row[0].rstrip(":"): float(row[1]) * KIB for row in rows if len(row) == 3}


def pressure_seconds(text: str) -> float | None:
    """The total of the `some` line of a pressure file, which counts microseconds."""
    for line in text.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) / 1e6
    return None


def disks(diskstats: str, wanted: frozenset[str]) -> Iterable[Disk]:
    """Rows of /proc/diskstats. Columns as in the kernel's Documentation/admin-guide/iostats."""
    for line in diskstats.splitlines():
        columns = line.split()
        if len(columns) >= 14 and columns[2] in wanted:
            yield Disk(
                device=columns[2],
                read_bytes=float(columns[5]) * SECTOR,
                written_bytes=float(columns[9]) * SECTOR,
                io_seconds=int(columns[12]) / 1000,
            )


def interfaces(net_dev: str, net: Path) -> Iterable[Interface]:
    """Rows of /proc/net/dev but the loopback and containers' own ends."""
    for line in net_dev.splitlines():
        name, colon, rest = line.partition(":")
        name, columns = name.strip(), rest.split()
        if not colon or len(columns) < 12 or name == "lo" or name.startswith("veth"):
            continue
        state = _text(net / name / "operstate").strip()
        yield Interface(
            device=name,
            receive_bytes=float(columns[0]),
            transmit_bytes=float(columns[8]),
            errors=float(columns[2]) + float(columns[10]),
            dropped=float(columns[3]) + float(columns[11]),
            up=float(state == "up") if state in ("up", "down") else None,
        )


def read_filesystems(mounts: Path = Path("/proc/self/mounts")) -> tuple[Filesystem, ...]:
    """Every file system that holds data, once: a disk that is mounted several times under its shortest path."""
    places: dict[str, str] = {}
    for line in _text(mounts).splitlines():
        source, place, kind = line.split()[:3]
        if kind in _REAL and len(place) < len(places.get(source, place + "/")):
            places[source] = place
    found: list[Filesystem] = []
    for place in sorted({_unescaped(place) for place in places.values()}):
        with contextlib.suppress(OSError):
            about = os.statvfs(place)
            if about.f_blocks:
                found.append(
                    Filesystem(
                        mount=place,
                        size_bytes=float(about.f_blocks * about.f_frsize),
                        available_bytes=float(about.f_bavail * about.f_frsize),
                    )
                )
    return tuple(found)


def _unescaped(place: str) -> str:
    return place.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _shm(shm: Path) -> tuple[float | None, float | None]:
    try:
        about = os.statvfs(shm)
    except OSError:
        return None, None
    return float(about.f_blocks * about.f_frsize), float((about.f_blocks - about.f_bfree) * about.f_frsize)


def _pressures(folder: Path) -> dict[str, float]:
    found = {name: pressure_seconds(_text(folder / name)) for name in ("cpu", "memory", "io")}
    return {name: seconds for name, seconds in found.items() if seconds is not None}


def _gpus_on_bus(devices: Path) -> float | None:
    """None where there is no PCI bus to be seen, as in some containers."""
    if not devices.is_dir():
        return None
    return float(
        sum(
            _text(device / "vendor").strip() == _NVIDIA and _text(device / "class").startswith(_DISPLAY_CLASS)
            for device in devices.iterdir()
        )
    )


def _whole_disks(block: Path) -> frozenset[str]:
    """Disks without their partitions and without what the kernel builds on top of others or of files."""
    with contextlib.suppress(OSError):
        return frozenset(disk.name for disk in block.iterdir() if not disk.name.startswith(("loop", "ram", "zram")))
    return frozenset()


def _infiniband(folder: Path) -> Iterable[InfinibandPort]:
    for port in sorted(folder.glob("*/ports/*")):
        counters = port / "counters"
        received, sent = (_first_number(_text(counters / f"port_{way}_data")) for way in ("rcv", "xmit"))
        errors = {name: _first_number(_text(counters / name)) for name in _IB_ERRORS}
        gigabits = _first_number(_text(port / "rate"))  # such as "200 Gb/sec (4X HDR)"
        yield InfinibandPort(
            device=port.parent.parent.name,
            port=port.name,
            active=float("ACTIVE" in _text(port / "state")),
            rate_bytes_per_second=None if gigabits is None else gigabits * 1e9 / 8,
            receive_bytes=None if received is None else received * _IB_LANE_WORD,
            transmit_bytes=None if sent is None else sent * _IB_LANE_WORD,
            errors={name: value for name, value in errors.items() if value is not None},
        )


def _first_number(text: str) -> float | None:
    words = text.split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
