"""Main memory, shared memory, and the limits of this process."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from stoker.host.probing import Notes, integer, names_of, text_of
from stoker.host.source import Source

UNLIMITED = -1
"""A limit that is none."""


@dataclass(frozen=True)
class Limits:
    """Soft limits of this process, which its children inherit; -1 is none. Memory in bytes."""

    memlock: int | None = None
    files: int | None = None
    processes: int | None = None
    stack: int | None = None


@dataclass(frozen=True)
class Memory:
    """Memory of the machine, in bytes.

    Attributes:
        cgroup_limit: What the control group allows this process; None if nothing.
        swap_used: Swap in use.
        huge_pages: Reserved huge pages, and `huge_page_size` of each.
        remove_ipc: Whether logind deletes a user's shared memory when the last session ends; None if unknown.
        remove_ipc_line: The setting as written, or that it is the default.
        oom_kills: Of this control group.
    """

    total: int | None = None
    available: int | None = None
    cgroup_limit: int | None = None
    swap_total: int | None = None
    swap_used: int | None = None
    huge_pages: int | None = None
    huge_page_size: int | None = None
    limits: Limits = field(default_factory=Limits)
    remove_ipc: bool | None = None
    remove_ipc_line: str = ""
    oom_kills: int | None = None


def read(source: Source, notes: Notes) -> Memory:
    """Read the section."""
    table = meminfo(notes.take("total", source.read("/proc/meminfo")) or "")
    limits = limits_of(notes.take("limits", source.read("/proc/self/limits")) or "")
    swap = table.get("SwapTotal")
    free = table.get("SwapFree")
    return Memory(
        table.get("MemTotal"),
        table.get("MemAvailable"),
        _cgroup_limit(source, table.get("MemTotal")),
        swap,
        swap - free if swap is not None and free is not None else None,
        table.get("HugePages_Total"),
        table.get("Hugepagesize"),
        limits,
        *_remove_ipc(source, notes),
        oom_kills_of(text_of(source.read("/sys/fs/cgroup/memory.events"))),
    )


def meminfo(text: str) -> dict[str, int]:
    """/proc/meminfo in bytes; its counts of huge pages have no unit and stay counts."""
    found: dict[str, int] = {}
    for name, value, unit in re.findall(r"^([\w()]+):\s*(\d{1,15})(?: (kB))?[ \t]*$", text, re.MULTILINE):
        found[name] = int(value) * (1024 if unit else 1)
    return found


def limits_of(text: str) -> Limits:
    """Soft limits in /proc/self/limits."""

    def soft(name: str) -> int | None:
        match = re.search(rf"^{name}\s+(unlimited|\d{{1,20}})\s", text, re.MULTILINE)
        return None if match is None else UNLIMITED if match[1] == "unlimited" else int(match[1])

    return Limits(soft("Max locked memory"), soft("Max open files"), soft("Max processes"), soft("Max stack size"))


def oom_kills_of(events: str) -> int | None:
    """Kills counted in cgroup v2's memory.events."""
    match = re.search(r"^oom_kill (\d{1,15})$", events, re.MULTILINE)
    return int(match[1]) if match else None


def _cgroup_limit(source: Source, total: int | None) -> int | None:
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = integer(text_of(source.read(path)))
        if limit is not None and (total is None or limit < total):  # v1 writes a huge number for none
            return limit
    return None


def _remove_ipc(source: Source, notes: Notes) -> tuple[bool | None, str]:
    """As systemd reads it: the drop-ins after the file itself; the default is yes (logind.conf(5))."""
    folders = ("/usr/lib/systemd/logind.conf.d", "/etc/systemd/logind.conf.d")
    paths = ["/etc/systemd/logind.conf"]
    for folder in folders:
        paths += [f"{folder}/{name}" for name in names_of(source.names(folder)) if name.endswith(".conf")]
    texts = {path: source.read(path) for path in paths}
    setting = remove_ipc_of({path: text_of(text) for path, text in texts.items()})
    if setting is not None:
        return setting
    if "system" not in names_of(source.names("/run/systemd")):  # the test of sd_booted(3)
        notes.note("remove_ipc", "systemd does not run here")
        return None, ""
    return True, "RemoveIPC is not set, and its default is yes"


def remove_ipc_of(files: dict[str, str]) -> tuple[bool, str] | None:
    """The last RemoveIPC of these files, in order, and where it stands; None if none sets it."""
    found = None
    for path, text in files.items():
        for line, value in re.findall(r"^[ \t]*(RemoveIPC[ \t]*=[ \t]*(\w+))", text, re.MULTILINE):
            found = (value.lower() in ("yes", "true", "on", "1"), f"{path}: {line}")
    return found
