"""Disks: room, inodes, read-only file systems, network mounts, RAID."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, seen, warn
from stoker.doctor.checks.memory import gib
from stoker.host.probes.disks import NETWORK_TYPES, Mount
from stoker.host.snapshot import Snapshot

_IGNORED = ("/boot/efi", "/boot", "/sys", "/proc", "/snap", "/run", "/dev")
_IMAGES = ("iso9660", "squashfs", "erofs", "udf", "cramfs")


def _matters(mount: Mount) -> bool:
    below = any(mount.path == path or mount.path.startswith(path + "/") for path in _IGNORED)
    return not below and mount.kind not in (*_IMAGES, "tmpfs")


@check("disk-space", needs=("disks.mounts", "disks.free"))
def disk_space(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """A full file system fails checkpoints, package upgrades and logs."""
    for mount in machine.disks.mounts:
        if not _matters(mount) or mount.read_only or not mount.size or mount.free is None:
            continue
        text = seen(f"df {mount.path}", f"{gib(mount.free)} of {gib(mount.size)} free on {mount.source}")
        if mount.free < mount.size * limits["fail_free"] and mount.free < limits["fail_bytes"]:
            yield fail("disk-full", f"{mount.path} is full.", text, path=mount.path)
        elif mount.free < mount.size * limits["warn_free"] and mount.free < limits["warn_bytes"]:
            yield warn("disk-full", f"{mount.path} is nearly full: {gib(mount.free)} are free.", text, path=mount.path)


@check("inodes", needs=("disks.mounts", "disks.free"))
def inodes(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Data sets of many small files use up inodes before space."""
    for mount in machine.disks.mounts:
        if (
            _matters(mount)
            and mount.inodes
            and mount.inodes_free is not None
            and mount.inodes_free < mount.inodes * limits["free"]
        ):
            yield warn(
                "disk-full",
                f"{mount.path} has room for {mount.inodes_free} more files.",
                seen(f"df -i {mount.path}", f"{mount.inodes_free} of {mount.inodes} inodes free"),
                path=mount.path,
            )


@check("read-only", needs=("disks.mounts",))
def read_only(machine: Snapshot) -> Iterator[Found]:
    """The kernel makes a file system read-only when the disk below it fails."""
    for mount in machine.disks.mounts:
        if (
            mount.read_only
            and mount.kind in ("ext4", "xfs", "btrfs", "ext3")
            and mount.path in ("/", "/home", "/var", "/tmp", "/data", "/scratch")
        ):
            yield fail(
                "storage-io-error",
                f"{mount.path} is mounted read-only.",
                seen("/proc/self/mounts", f"{mount.source} {mount.path} {mount.kind} {mount.options}"),
            )


@check("network-mounts", needs=("disks.mounts",))
def network_mounts(machine: Snapshot) -> Iterator[Found]:
    """A file server that is gone hangs every process that touches it."""
    remote = [mount for mount in machine.disks.mounts if mount.kind in NETWORK_TYPES]
    if not remote:
        yield fine("There is no network file system here.")
    silent = [mount for mount in remote if mount.size is None]
    if silent and machine.why_unknown("disks.network_mounts"):
        yield fail(
            "network-mount-silent",
            "A network file system does not answer.",
            *(seen("/proc/self/mounts", f"{mount.source} {mount.path} {mount.kind}") for mount in silent[:3]),
            seen("df", machine.why_unknown("disks.network_mounts")),
        )


@check("raid", needs=("disks.mounts",))
def raid(machine: Snapshot) -> Iterator[Found]:
    """An array that lacks a member lives on borrowed time."""
    for array in machine.disks.raids:
        if array.active < array.wanted:
            yield warn(
                "raid-degraded",
                f"The RAID array {array.name} has {array.active} of {array.wanted} members.",
                seen("/proc/mdstat", array.line),
                name=array.name,
            )
