"""The kernel's log since boot: the lines that concern GPUs, links, memory, disks and network."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, printed
from stoker.host.source import Source, Unreadable

MAX_LINES = 2000
"""Kept of the lines that matter: the first half and the last."""

_MATTERS = re.compile(
    r"NVRM|nvidia|\bXid\b|SXid|nouveau|nova|AER:|PCIe Bus Error|pcieport|[Oo]ut of memory|oom-kill|Killed process|"
    r"blocked for more than|hung_task|soft lockup|hard LOCKUP|I/O error|critical (?:medium|target) error|nvme|"
    r"EXT4-fs|XFS|BTRFS|Remounting filesystem read-only|mlx[45]|\bib\d|Link (?:is )?(?:up|down|Down)|segfault|"
    r"[Mm]achine [Cc]heck|\bmce\b|EDAC|Hardware Error|DMAR|AMD-Vi|BAR \d|can't assign|PKCS|Lockdown|lockdown|"
    r"module verification|Key was rejected|thermal|[Tt]hrottl|available PCIe bandwidth|nfs: server|ACPI Error"
)
_BOOT = re.compile(r"\bLinux version \d")


@dataclass(frozen=True)
class KernelLog:
    """Lines of the kernel's log.

    Attributes:
        lines: Those that matter, in order.
        source: Where they come from: `dmesg`, `journalctl -k`, or a file.
        total: How many lines were looked at.
    """

    lines: tuple[str, ...] = ()
    source: str = ""
    total: int = 0


def read(source: Source, notes: Notes) -> KernelLog:
    """Read the section, from the first place that can be read."""
    reasons: list[str] = []
    for name, command in {
        "dmesg": ["dmesg", "-T"],
        "journalctl -k": ["journalctl", "-k", "-b", "-o", "short-iso", "--no-pager", "-n", "50000"],
    }.items():
        found = source.run(command)
        if printed(found).strip() and not isinstance(found, Unreadable):
            return log_of(found.text, name)
        reasons.append(f"{name}: {found.reason if isinstance(found, Unreadable) else found.errors.strip()[:100]}")
    for path in ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog"):
        text = source.read(path, tail=True)
        if not isinstance(text, Unreadable) and text.strip():
            return log_of(since_boot(text), path)
        reasons.append(f"{path}: {text.reason if isinstance(text, Unreadable) else 'empty'}")
    notes.note("lines", "; ".join(reasons[:2]))
    return KernelLog()


def since_boot(text: str) -> str:
    """The part of a log file after the last start of the kernel, where that stands in it."""
    lines = text.splitlines()
    starts = [place for place, line in enumerate(lines) if _BOOT.search(line)]
    return "\n".join(lines[starts[-1] :] if starts else lines)


def log_of(text: str, name: str) -> KernelLog:
    """The lines that matter; of too many, the first and the last."""
    lines = text.splitlines()
    kept = [line[:1000] for line in lines if _MATTERS.search(line[:1000])]
    if len(kept) > MAX_LINES:
        kept = kept[: MAX_LINES // 2] + kept[-MAX_LINES // 2 :]
    return KernelLog(tuple(kept), name, len(lines))
