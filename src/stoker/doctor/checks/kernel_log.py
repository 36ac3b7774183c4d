"""The kernel's log: what the log reader recognises, and lines that it leaves to a check of the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, warn
from stoker.doctor.checks.lookup import driver_version
from stoker.doctor.log import diagnose_text
from stoker.finding import Evidence, Finding
from stoker.host.snapshot import Snapshot

_NEEDS = ("kernel_log.lines",)
_GPU = ("hardware", "driver")
_STORAGE = (
    r"I/O error|critical (?:medium|target) error|Remounting filesystem read-only|EXT4-fs error|XFS .*[Cc]orruption|"
    r"nvme\S*: (?:I/O \d+ .*timeout|controller is down)"
)


def _recognised(machine: Snapshot) -> tuple[Finding, ...]:
    return diagnose_text("\n".join(machine.kernel_log.lines)).findings


def _hits(machine: Snapshot, pattern: str) -> list[str]:
    found = re.compile(pattern)
    return [line for line in machine.kernel_log.lines if found.search(line)]


def _quote(machine: Snapshot, hits: list[str]) -> list[Evidence]:
    """The first and the last."""
    return [seen(machine.kernel_log.source, line) for line in (hits[:1] + hits[-1:] if len(hits) > 1 else hits)]


def _said_elsewhere(machine: Snapshot, cause: str) -> bool:
    """Whether another check sees the same cause on the live machine, and so says it better."""
    if cause == "gpu-fallen-off-bus":
        return bool(machine.gpus.lost) or not machine.gpus.devices
    if cause in ("driver-library-mismatch", "secure-boot-rejects-module", "nvidia-driver-not-loaded"):
        return True
    return cause == "gpu-thermal-throttling" and any(
        "thermal" in reason for gpu in machine.gpus.devices for reason in gpu.clock_reasons
    )


def _values(machine: Snapshot) -> dict[str, str]:
    """For the fix of a cause that is told by a line only: what the line does not name is left to the reader."""
    version = driver_version(machine)
    named = {"branch": version.partition(".")[0], "version": version, "module": "nvidia"}
    return named | {
        "gpu": "GPU",
        "address": "ADDRESS",
        "port": "PORT",
        "path": "PATH",
        "watts": "WATTS",
        "name": "NAME",
    }


@check("xid", needs=_NEEDS)
def xid(machine: Snapshot) -> Iterator[Found]:
    """Xid errors of the driver, and other GPU faults that the log reader recognises."""
    for finding in _recognised(machine):
        if finding.area not in _GPU or finding.follows_from or _said_elsewhere(machine, finding.cause):
            continue
        quotes = [seen(machine.kernel_log.source, item.text, None) for item in finding.evidence[:3]]
        make = {"fail": fail, "warn": warn}.get(finding.state, info)
        yield make(finding.cause, finding.title, *quotes, **_values(machine))


@check("sxid", needs=_NEEDS)
def sxid(machine: Snapshot) -> Iterator[Found]:
    """SXid errors of the NVSwitches."""
    hits = _hits(machine, r"\bSXid\b.*?:\s*\d{4,5}")
    if hits:
        fatal = any("Non-fatal" not in line and "Fatal" in line for line in hits)
        make = fail if fatal else warn
        yield make(
            "nvswitch-sxid",
            f"An NVSwitch reported {len(hits)} errors (SXid).",
            *_quote(machine, hits),
        )


@check("oom-kills", needs=_NEEDS)
def oom_kills(machine: Snapshot) -> Iterator[Found]:
    """Processes that the kernel ended because memory ran out."""
    hits = _hits(machine, r"Out of memory: Kill|oom-kill:|Killed process \d+")
    if hits:
        yield warn(
            "host-ram-oom-kill",
            "The kernel ended processes because memory ran out.",
            *_quote(machine, hits),
        )


@check("hung-tasks", needs=_NEEDS)
def hung_tasks(machine: Snapshot) -> Iterator[Found]:
    """Processes that waited in the kernel for minutes, and processors that did not come back."""
    hits = _hits(machine, r"blocked for more than \d+ seconds|soft lockup|hard LOCKUP|self-detected stall")
    if hits:
        yield warn(
            "process-stuck-in-kernel",
            "Processes hung in the kernel.",
            *_quote(machine, hits),
        )


@check("storage-errors", needs=_NEEDS)
def storage_errors(machine: Snapshot) -> Iterator[Found]:
    """Disks that could not be read or written."""
    hits = _hits(
        machine,
        _STORAGE,
    )
    if hits:
        yield fail(
            "storage-io-error",
            f"The kernel reported {len(hits)} storage errors since boot.",
            *_quote(machine, hits),
        )


@check("nccl-crash", needs=_NEEDS)
def nccl_crash(machine: Snapshot) -> Iterator[Found]:
    """A crash inside NCCL shows in the kernel's log even where the program's output is lost."""
    hits = _hits(machine, r"segfault at .* in libnccl")
    if hits:
        yield warn(
            "nccl-crashed",
            "A process crashed inside NCCL.",
            *_quote(machine, hits),
        )


@check("pcie-log", needs=_NEEDS)
def pcie_log(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """PCIe errors that the kernel wrote down (AER)."""
    hits = _hits(machine, r"PCIe Bus Error: severity=|AER: (?:Uncorrect|Correct|Multiple)")
    if len(hits) > limits["lines"]:
        make = fail if any("severity=Uncorrect" in line for line in hits) else warn
        address = re.search(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", hits[-1])
        yield make(
            "pcie-link-degraded",
            f"The kernel wrote {len(hits)} lines about PCIe errors since boot.",
            *_quote(machine, hits),
            address=address[0] if address else "ADDRESS",
        )


@check("machine-checks", needs=_NEEDS)
def machine_checks(machine: Snapshot) -> Iterator[Found]:
    """Errors of the processor and of main memory."""
    hits = _hits(machine, r"\[Hardware Error\]|mce: .*(?:CPU \d+: Machine Check|Uncorrected)|EDAC .*: \d+ (?:CE|UE) ")
    if hits:
        make = fail if any("Uncorrected" in line or " UE " in line for line in hits) else warn
        yield make(
            "machine-check",
            "The processor or main memory reported errors.",
            *_quote(machine, hits),
        )


@check("firmware-windows", needs=("card", *_NEEDS))
def firmware_windows(machine: Snapshot) -> Iterator[Found]:
    """Lines in which the kernel fails to place a card's windows."""
    addresses = {card.address for card in machine.pci.gpus()}
    hits = [
        hit
        for hit in _hits(machine, r"BAR \d+.*(?:can't assign|failed to assign|no space)")
        if any(address in hit for address in addresses)
    ]
    if hits and not any(card.unassigned for card in machine.pci.gpus()):
        yield warn(
            "pci-bar-allocation-failed",
            "The kernel could not place an address window of a GPU at first.",
            *_quote(machine, hits),
        )
    elif not hits:
        yield fine("The kernel placed all address windows of the GPUs.")
