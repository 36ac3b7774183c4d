"""Mounted file systems with what is free on them, and the state of software RAID."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, integer, text_of
from stoker.host.source import Source

NETWORK_TYPES = ("nfs", "nfs4", "cifs", "lustre", "ceph", "fuse.sshfs", "beegfs", "gpfs", "fuse.juicefs", "glusterfs")
_PSEUDO = re.compile(
    r"proc|sysfs|devpts|cgroup2?|securityfs|pstore|bpf|debugfs|tracefs|configfs|fusectl|mqueue|hugetlbfs|autofs|"
    r"binfmt_misc|efivarfs|nsfs|rpc_pipefs|squashfs|devtmpfs|ramfs|overlay|fuse\.(?:lxcfs|gvfsd-fuse|portal|snapfuse)"
)


@dataclass(frozen=True)
class Mount:
    """A mounted file system; sizes in bytes, None if it did not answer.

    Attributes:
        source: The device, or `server:/path`.
        inodes_free: Files that can still be made; None where the file system does not count them.
    """

    path: str
    source: str
    kind: str
    options: str
    size: int | None = None
    free: int | None = None
    inodes: int | None = None
    inodes_free: int | None = None

    @property
    def read_only(self) -> bool:
        """Whether it is mounted for reading only."""
        return "ro" in self.options.split(",")


@dataclass(frozen=True)
class Raid:
    """A software RAID array: `wanted` members, `active` of them working."""

    name: str
    state: str
    wanted: int
    active: int
    line: str


@dataclass(frozen=True)
class Disks:
    """File systems; those of the kernel itself are left out."""

    mounts: tuple[Mount, ...] = ()
    raids: tuple[Raid, ...] = ()

    def mount(self, path: str) -> Mount | None:
        """The file system mounted at exactly this path, the last one if several are."""
        return next((mount for mount in reversed(self.mounts) if mount.path == path), None)


def read(source: Source, notes: Notes) -> Disks:
    """Read the section. Network file systems are asked apart: a dead server would hold up the answer of all."""
    mounts = parse_mounts(notes.take("mounts", source.read("/proc/self/mounts")) or "")
    local = parse_df(notes.output("free", source.run(_df("-l"), name="df_local")) or "")
    remote: dict[str, tuple[int, ...]] = {}
    if any(mount.kind in NETWORK_TYPES for mount in mounts):
        remote = parse_df(notes.output("network_mounts", source.run(_df(), name="df_all")) or "")
    sizes = remote | local
    if not sizes:
        notes.unknown.setdefault("free", "df printed no file system")
    return Disks(
        tuple(_sized(mount, sizes.get(mount.path)) for mount in mounts),
        parse_mdstat(text_of(source.read("/proc/mdstat"))),
    )


def _df(*options: str) -> list[str]:
    return ["df", *options, "-B1", "--output=target,size,avail,itotal,iavail"]


def _sized(mount: Mount, found: tuple[int, ...] | None) -> Mount:
    if found is None:
        return mount
    inodes = found[2:] if found[2] else (None, None)
    return Mount(mount.path, mount.source, mount.kind, mount.options, found[0], found[1], *inodes)


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """File systems in /proc/self/mounts, without the kernel's own."""
    mounts: list[Mount] = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) >= 4 and (not _PSEUDO.fullmatch(cells[2]) or cells[1] == "/"):
            path = cells[1].replace("\\040", " ")
            mounts.append(Mount(path, cells[0], cells[2], cells[3]))
    return tuple(mounts)


def parse_df(text: str) -> dict[str, tuple[int, ...]]:
    """Size, free bytes, inodes and free inodes of each path, from `df -B1 --output=target,size,avail,itotal,iavail`."""
    found: dict[str, tuple[int, ...]] = {}
    for line in text.splitlines():
        match = re.match(r"^(/.*?)\s+(\d{1,19}|-)\s+(\d{1,19}|-)\s+(\d{1,19}|-)\s+(\d{1,19}|-)\s*$", line)
        if match:
            found[match[1]] = tuple(integer(cell) or 0 for cell in match.groups()[1:])
    return found


def parse_mdstat(text: str) -> tuple[Raid, ...]:
    """Arrays of /proc/mdstat: `md0 : active raid1 ...`, then `... [2/1] [U_]`."""
    arrays: list[Raid] = []
    name = state = ""
    for line in text.splitlines():
        if match := re.match(r"^(md\S*) : (\w+)", line):
            name, state = match[1], match[2]
        elif name and (match := re.search(r"\[(\d{1,4})/(\d{1,4})\] \[[U_]+\]", line)):
            arrays.append(Raid(name, state, int(match[1]), int(match[2]), line.strip()))
            name = ""
    return tuple(arrays)
