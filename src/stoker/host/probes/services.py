"""System services that a GPU server needs, as systemd sees them, and the clock."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, integer, number, pairs, printed, text_of
from stoker.host.source import Source

UNITS = (
    "nvidia-persistenced", "nvidia-fabricmanager", "nvidia-imex", "nvidia-dcgm", "nvidia-cdi-refresh", "docker",
    "containerd", "slurmd", "munge", "chronyd", "chrony", "systemd-timesyncd", "ntpd", "irqbalance",
)  # fmt: skip
_PROPERTIES = "Id,LoadState,ActiveState,SubState,UnitFileState,Result,NRestarts,LimitMEMLOCK"


@dataclass(frozen=True)
class Service:
    """A unit of systemd.

    Attributes:
        active: `active`, `inactive`, `failed`, `activating`.
        enabled: `enabled`, `disabled`, `masked`, `static`.
        memlock: Limit on locked memory of its processes, in bytes; -1 is none, None unknown.
    """

    name: str
    active: str = ""
    sub: str = ""
    enabled: str = ""
    result: str = ""
    restarts: int | None = None
    memlock: int | None = None


@dataclass(frozen=True)
class Services:
    """Services that are installed, and the clock.

    Attributes:
        units: By name; only those that are installed.
        fabric_manager: Its version; empty if unknown.
        clock_synchronized: Whether something keeps the clock right; `clock_offset_s` how far it is off.
    """

    units: dict[str, Service] | None = None
    fabric_manager: str = ""
    clock_synchronized: bool | None = None
    clock_offset_s: float | None = None
    clock_line: str = ""


def read(source: Source, notes: Notes) -> Services:
    """Read the section."""
    command = ["systemctl", "show", "-p", _PROPERTIES, *(f"{name}.service" for name in UNITS)]
    text = notes.output("units", source.run(command, name="systemctl_show"))
    units = parse_units(text) if text is not None else None
    if text is not None and not units and "Id=" not in text:
        notes.note("units", "systemd does not answer here")
        units = None
    version = fabric_version(printed(source.run(["nv-fabricmanager", "--version"])))
    return Services(units, version, *_clock(source, notes))


def parse_units(text: str) -> dict[str, Service]:
    """Units of `systemctl show`, one block each; those not installed are left out."""
    found: dict[str, Service] = {}
    for block in re.split(r"\n\s*\n", text):
        values = pairs(block, "=")
        name = values.get("Id", "").removesuffix(".service")
        if name and values.get("LoadState") not in ("not-found", None, ""):
            limit = values.get("LimitMEMLOCK", "")
            found[name] = Service(
                name,
                values.get("ActiveState", ""),
                values.get("SubState", ""),
                values.get("UnitFileState", ""),
                values.get("Result", ""),
                integer(values.get("NRestarts", "")),
                -1 if limit in ("infinity", "18446744073709551615") else integer(limit),
            )
    return found


def fabric_version(text: str) -> str:
    """Version in `nv-fabricmanager --version`: `Fabric Manager version is : 580.65.06`."""
    match = re.search(r"version is\s*:\s*(\d{3}\.[\d.]+)", text, re.IGNORECASE)
    return match[1] if match else ""


def _clock(source: Source, notes: Notes) -> tuple[bool | None, float | None, str]:
    offset = chrony_offset(printed(source.run(["chronyc", "-n", "tracking"])))
    text = printed(source.run(["timedatectl", "show"]))
    match = re.search(r"^NTPSynchronized=(yes|no)$", text, re.MULTILINE)
    if match:
        return match[1] == "yes", offset, match[0]
    if offset is not None:
        return True, offset, "chronyc tracking"
    if "kvm" in text_of(source.read("/sys/devices/system/clocksource/clocksource0/current_clocksource")):
        notes.note("clock_synchronized", "neither timedatectl nor chronyc answers; the hypervisor may keep the clock")
    else:
        notes.note("clock_synchronized", "neither timedatectl nor chronyc answers")
    return None, None, ""


def chrony_offset(text: str) -> float | None:
    """Seconds off in `chronyc tracking`; negative is slow. None if it is not synchronised."""
    match = re.search(r"^System time\s*:\s*([\d.]{1,20}) seconds (slow|fast)", text, re.MULTILINE)
    if match is None or re.search(r"^Reference ID\s*:\s*00000000", text, re.MULTILINE):
        return None
    found = number(match[1])
    return found if found is None or match[2] == "fast" else -found
