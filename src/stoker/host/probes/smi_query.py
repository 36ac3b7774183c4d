"""The text of `nvidia-smi -q`, of any age, as the fields of `Gpu`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.host.probes.pci import bus_id
from stoker.host.probing import integer, number

Block = list[tuple[str, str]]
"""Lines of one GPU: path of headings joined by `/`, and value."""


@dataclass
class SmiLog:
    """What `nvidia-smi -q` says.

    Attributes:
        attached: How many GPUs it counts.
        gpus: Fields of each GPU that answered, as plain values.
        lost: Addresses of those it could not reach, with its sentence.
    """

    attached: int | None = None
    gpus: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lost: dict[str, str] = field(default_factory=dict[str, str])


_LOST = re.compile(
    r"^.*?([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]):?\s*"
    r"(?:GPU is lost|Unknown Error|GPU requires reset|Not Found|GPU access blocked).*$",
    re.MULTILINE,
)
"""`Unable to determine the device handle for GPU1: 0000:41:00.0: Unknown Error` and its older forms."""


def parse_query(text: str) -> SmiLog:
    """Read the whole output."""
    log = SmiLog(lost={bus_id(match[1]): match[0].strip()[:300] for match in _LOST.finditer(text)})
    blocks = re.split(
        r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])[ \t]*\r?$", text, flags=re.MULTILINE
    )
    if match := re.search(r"^Attached GPUs\s*:\s*(\d{1,4})", blocks[0], re.MULTILINE):
        log.attached = int(match[1])
    for place in range(1, len(blocks) - 1, 2):
        lines = flatten(blocks[place + 1])
        log.gpus.append({"index": (place - 1) // 2, "bus_id": bus_id(blocks[place]), **fields_of(lines)})
    return log


def flatten(text: str) -> Block:
    """The indented lines `key : value` with the headings above them: `ECC Mode/Current`, `Enabled`."""
    headings: list[tuple[int, str]] = []
    found: Block = []
    for line in text.splitlines():
        words = line.strip()
        if not words:
            continue
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            break  # the next section of the output
        while headings and headings[-1][0] >= indent:
            headings.pop()
        key, mark, value = words.partition(" :") if " :" in words else words.partition(":")
        path = "/".join([*(name for _, name in headings), key.strip()])
        if mark:
            found.append((path, value.strip()))
        headings.append((indent, key.strip()))
    return found


def _flag(text: str) -> bool | None:
    return {"enabled": True, "yes": True, "active": True, "disabled": False, "no": False, "not active": False}.get(
        text.strip().lower()
    )


def _word(text: str) -> str:
    return "" if text in ("N/A", "[N/A]", "Unknown") else text


Reader = Callable[[str], Any]


def _power(*names: str) -> tuple[str, ...]:
    """Where a figure about power stands: from driver 610 on, from 525 on, and before."""
    headings = ("GPU Power Readings/GPU Ceiling Power Limit", "GPU Power Readings", "Power Readings")
    return tuple(f"{heading}/{name}" for name in names for heading in headings)


_FIELDS: Mapping[str, tuple[Reader, tuple[str, ...]]] = {
    "name": (_word, ("Product Name",)),
    "brand": (_word, ("Product Brand",)),
    "architecture": (_word, ("Product Architecture",)),
    "uuid": (_word, ("GPU UUID",)),
    "vbios": (_word, ("VBIOS Version",)),
    "persistence": (_flag, ("Persistence Mode",)),
    "compute_mode": (_word, ("Compute Mode",)),
    "virtualization": (_word, ("GPU Virtualization Mode/Virtualization Mode",)),
    "recovery_action": (_word, ("GPU Recovery Action",)),
    "gsp_firmware": (_word, ("GSP Firmware Version",)),
    "addressing_mode": (_word, ("Addressing Mode",)),
    "performance_state": (_word, ("Performance State",)),
    "generation": (integer, ("PCI/GPU Link Info/PCIe Generation/Current",)),
    "generation_max": (integer, ("PCI/GPU Link Info/PCIe Generation/Max",)),
    "device_generation_max": (integer, ("PCI/GPU Link Info/PCIe Generation/Device Max",)),
    "host_generation_max": (integer, ("PCI/GPU Link Info/PCIe Generation/Host Max",)),
    "width": (integer, ("PCI/GPU Link Info/Link Width/Current",)),
    "width_max": (integer, ("PCI/GPU Link Info/Link Width/Max",)),
    "replays": (integer, ("PCI/Replays Since Reset", "PCI/Replays since reset")),
    "utilization": (number, ("Utilization/GPU", "Utilization/Gpu")),
    "memory_total_mib": (number, ("FB Memory Usage/Total",)),
    "memory_used_mib": (number, ("FB Memory Usage/Used",)),
    "bar1_total_mib": (number, ("BAR1 Memory Usage/Total",)),
    "ecc": (_flag, ("ECC Mode/Current", "Ecc Mode/Current")),
    "ecc_pending": (_flag, ("ECC Mode/Pending", "Ecc Mode/Pending")),
    "sram_threshold_exceeded": (_flag, ("ECC Errors/Aggregate/SRAM Threshold Exceeded",)),
    "retired_pending": (_flag, ("Retired Pages/Pending Page Blacklist", "Retired Pages/Pending")),
    "remapped": (integer, ("Remapped Rows/Uncorrectable Error",)),
    "remap_pending": (_flag, ("Remapped Rows/Pending",)),
    "remap_failure": (_flag, ("Remapped Rows/Remapping Failure Occurred",)),
    "unrepairable": (_flag, ("ECC Errors/Unrepairable Memory",)),
    "temperature_c": (number, ("Temperature/GPU Current Temp",)),
    "slowdown_c": (number, ("Temperature/GPU Slowdown Temp",)),
    "max_operating_c": (number, ("Temperature/GPU Max Operating Temp",)),
    "margin_c": (number, ("Temperature/GPU Current T.Limit Temp", "Temperature/GPU T.Limit Temp")),
    "slowdown_margin_c": (number, ("Temperature/GPU Slowdown T.Limit Temp",)),
    "memory_temperature_c": (number, ("Temperature/Memory Current Temp",)),
    "memory_max_c": (number, ("Temperature/Memory Max Operating Temp",)),
    "power_draw_w": (number, _power("Average Power Draw", "Instantaneous Power Draw", "Power Draw")),
    "power_limit_w": (number, _power("Current Power Limit", "Enforced Power Limit", "Power Limit")),
    "power_default_w": (number, _power("Default Power Limit")),
    "power_max_w": (number, _power("Max Power Limit")),
    "clock_sm_mhz": (number, ("Clocks/SM",)),
    "clock_sm_max_mhz": (number, ("Max Clocks/SM",)),
    "clock_memory_mhz": (number, ("Clocks/Memory",)),
    "clock_memory_max_mhz": (number, ("Max Clocks/Memory",)),
    "mig": (_flag, ("MIG Mode/Current",)),
    "mig_pending": (_flag, ("MIG Mode/Pending",)),
    "fabric_state": (_word, ("Fabric/State",)),
    "fabric_status": (_word, ("Fabric/Status",)),
}
"""Where each field stands, the newest spelling first."""

_REASONS = {
    "Applications Clocks Setting": "applications_clocks",
    "SW Power Cap": "sw_power_cap",
    "SW Power Capping": "sw_power_cap",
    "HW Slowdown": "hw_slowdown",
    "HW Thermal Slowdown": "hw_thermal_slowdown",
    "HW Power Brake Slowdown": "hw_power_brake",
    "HW Power Braking": "hw_power_brake",
    "Sync Boost": "sync_boost",
    "SW Thermal Slowdown": "sw_thermal_slowdown",
}
_UNCORRECTABLE = re.compile(r"(?:SRAM|DRAM) Uncorrectable\b.*")
_OLD_TOTAL = "Double Bit/Total"


def fields_of(lines: Block) -> dict[str, Any]:
    """The fields of `Gpu` in the lines of one card, as plain values."""
    first: dict[str, str] = {}
    for path, value in lines:
        first.setdefault(path, value)
    values: dict[str, Any] = {}
    for name, (read, places) in _FIELDS.items():
        found = next((first[place] for place in places if first.get(place, "N/A") not in ("N/A", "")), None)
        values[name] = read(found) if found is not None else ("" if read is _word else None)
    values |= _ecc(lines) | _clock_reasons(lines)
    values["retired_pages"] = _sum(
        [value for path, value in lines if re.fullmatch(r"Retired Pages/(?:Single|Double) Bit ECC", path)]
    )
    repairs = [_flag(first.get(f"ECC Errors/{name} Repair Pending", "")) for name in ("Channel", "TPC")]
    values["repair_pending"] = True if True in repairs else False if False in repairs else None
    values["mig_devices"] = _mig_devices(lines)
    values["processes"] = _processes(lines)
    values["broken"] = [path for path, value in lines if value in ("Unknown Error", "ERR!", "GPU is lost")][:20]
    return values


def _sum(texts: list[str]) -> int | None:
    numbers = [found for text in texts if (found := integer(text)) is not None]
    return sum(numbers) if numbers else None


def _ecc(lines: Block) -> dict[str, int | None]:
    """Uncorrectable errors, in the words of Ampere and later, or of before."""

    def total(period: str) -> int | None:
        place = f"ECC Errors/{period}/"
        of_period = [(path.removeprefix(place), value) for path, value in lines if path.startswith(place)]
        old = [value for path, value in of_period if path == _OLD_TOTAL]
        return _sum(old or [value for path, value in of_period if _UNCORRECTABLE.fullmatch(path)])

    corrected = [v for path, v in lines if re.fullmatch(r"ECC Errors/Volatile/[SD]RAM Correctable", path)]
    return {"ecc_volatile": total("Volatile"), "ecc_aggregate": total("Aggregate"), "ecc_corrected": _sum(corrected)}


def _clock_reasons(lines: Block) -> dict[str, Any]:
    active: list[str] = []
    times: dict[str, int] = {}
    for path, value in lines:
        heading, _, name = path.partition("/")
        reason = _REASONS.get(name.rpartition("/")[2])
        if reason is None:
            continue
        if heading in ("Clocks Event Reasons", "Clocks Throttle Reasons") and value == "Active":
            active.append(reason)
        elif heading in ("Clocks Event Reasons Counters", "Clocks Throttle Reasons Counters"):
            time = integer(value)
            if time is not None:
                times[reason] = time
    return {"clock_reasons": active, "reason_times_us": times or None}


def _mig_devices(lines: Block) -> list[dict[str, Any]]:
    devices: list[dict[str, Any]] = []
    for path, value in lines:
        if path == "MIG Device/Index":
            devices.append({"index": integer(value)})
        elif devices and path == "MIG Device/GPU Instance ID":
            devices[-1]["instance"] = integer(value)
        elif devices and re.fullmatch(r"MIG Device/(?:Shared )?FB Memory Usage/Total", path):
            devices[-1]["memory_mib"] = number(value)
    return devices


def _processes(lines: Block) -> list[dict[str, Any]]:
    processes: list[dict[str, Any]] = []
    for path, value in lines:
        if not path.startswith("Processes"):
            continue
        key = path.rpartition("/")[2]
        if key == "Process ID" and (pid := integer(value)) is not None:
            processes.append({"pid": pid})
        elif processes and key == "Type":
            processes[-1]["kind"] = value
        elif processes and key == "Name":
            processes[-1]["name"] = value
        elif processes and key == "Used GPU Memory":
            processes[-1]["memory_mib"] = number(value)
    return processes
