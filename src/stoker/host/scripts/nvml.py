"""Prints the GPUs as JSON through NVML. Run in a process of its own, since a call into a sick driver can hang for ever.

It imports nothing of stoker and keeps to Python 3.8. A call that this driver or this nvidia-ml-py does not have leaves
its field out: functions come and go between releases, and what is not there is unknown, never zero.
"""

import json
import sys
from typing import Any, Dict, List, Optional  # 3.8 knows no dict[...] in annotations


def text(value: Any) -> str:
    """NVML gave bytes before nvidia-ml-py 11."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def ask(nvml: Any, names: Any, *arguments: Any) -> Any:
    """The answer of the first of these functions that answers; None if none does."""
    for name in [names] if isinstance(names, str) else names:
        try:
            return getattr(nvml, name)(*arguments)
        except (AttributeError, TypeError, nvml.NVMLError):
            continue
    return None


def constant(nvml: Any, name: str) -> int:
    """A constant, or -1, which no call knows."""
    return getattr(nvml, name, -1)


def mib(value: Optional[float]) -> Optional[float]:
    """Bytes as MiB."""
    return value / 1048576 if value is not None else None


def thousandth(value: Optional[float]) -> Optional[float]:
    """MW as W."""
    return value / 1000 if value is not None else None


def flag(value: Any) -> Optional[bool]:
    """0 and 1 as a truth."""
    return bool(value) if value is not None else None


REASONS = (
    ("applications_clocks", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake", 0x80),
)
"""Bits of nvmlClocksEventReasons (nvml.h)."""


def errors(nvml: Any, handle: Any, counter: int) -> Any:
    """Uncorrectable ECC errors, volatile or aggregate."""
    return ask(
        nvml, "nvmlDeviceGetTotalEccErrors", handle, constant(nvml, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"), counter
    )


def processes(nvml: Any, handle: Any) -> List[Dict[str, Any]]:
    """Compute processes; memory is None where it is hidden."""
    found = ask(nvml, ["nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses"], handle)
    return [
        {"pid": int(one.pid), "kind": "C", "memory_mib": mib(getattr(one, "usedGpuMemory", None))}
        for one in found or []
    ]


def gpu(nvml: Any, index: int) -> Dict[str, Any]:
    """One card. A card that fell off the bus gives its index and what NVML said."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    pci = nvml.nvmlDeviceGetPciInfo(handle)
    bus, _, rest = text(pci.busId).lower().partition(":")
    memory = ask(nvml, "nvmlDeviceGetMemoryInfo", handle)
    bar1 = ask(nvml, "nvmlDeviceGetBAR1MemoryInfo", handle)
    ecc = ask(nvml, "nvmlDeviceGetEccMode", handle) or (None, None)
    mig = ask(nvml, "nvmlDeviceGetMigMode", handle) or (None, None)
    remapped = ask(nvml, "nvmlDeviceGetRemappedRows", handle) or (None, None, None, None)
    reasons = ask(nvml, ["nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"], handle)
    sm, dram = constant(nvml, "NVML_CLOCK_SM"), constant(nvml, "NVML_CLOCK_MEM")
    persistence = ask(nvml, "nvmlDeviceGetPersistenceMode", handle)
    return {
        "index": index,
        "bus_id": bus[-4:] + ":" + rest,
        "name": text(ask(nvml, "nvmlDeviceGetName", handle) or ""),
        "uuid": text(ask(nvml, "nvmlDeviceGetUUID", handle) or ""),
        "vbios": text(ask(nvml, "nvmlDeviceGetVbiosVersion", handle) or ""),
        "persistence": flag(persistence),
        "generation": ask(nvml, "nvmlDeviceGetCurrPcieLinkGeneration", handle),
        "generation_max": ask(nvml, "nvmlDeviceGetMaxPcieLinkGeneration", handle),
        "width": ask(nvml, "nvmlDeviceGetCurrPcieLinkWidth", handle),
        "width_max": ask(nvml, "nvmlDeviceGetMaxPcieLinkWidth", handle),
        "replays": ask(nvml, "nvmlDeviceGetPcieReplayCounter", handle),
        "memory_total_mib": mib(memory.total) if memory else None,
        "memory_used_mib": mib(memory.used) if memory else None,
        "bar1_total_mib": mib(bar1.bar1Total) if bar1 else None,
        "ecc": flag(ecc[0]),
        "ecc_pending": flag(ecc[1]),
        "ecc_volatile": errors(nvml, handle, constant(nvml, "NVML_VOLATILE_ECC")),
        "ecc_aggregate": errors(nvml, handle, constant(nvml, "NVML_AGGREGATE_ECC")),
        "remapped": remapped[1],
        "remap_pending": flag(remapped[2]),
        "remap_failure": flag(remapped[3]),
        "power_draw_w": thousandth(ask(nvml, "nvmlDeviceGetPowerUsage", handle)),
        "power_limit_w": thousandth(ask(nvml, "nvmlDeviceGetEnforcedPowerLimit", handle)),
        "power_default_w": thousandth(ask(nvml, "nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        "clock_sm_mhz": ask(nvml, "nvmlDeviceGetClockInfo", handle, sm),
        "clock_sm_max_mhz": ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, sm),
        "clock_memory_mhz": ask(nvml, "nvmlDeviceGetClockInfo", handle, dram),
        "clock_memory_max_mhz": ask(nvml, "nvmlDeviceGetMaxClockInfo", handle, dram),
        "clock_reasons": [name for name, bit in REASONS if (reasons or 0) & bit],
        "mig": flag(mig[0]),
        "mig_pending": flag(mig[1]),
        "processes": processes(nvml, handle),
    }


def main() -> Dict[str, Any]:
    """Print one JSON document; `error` says what NVML said where it failed."""
    found: Dict[str, Any] = {"gpus": [], "error": ""}
    try:
        import pynvml as nvml
    except ImportError:
        found["error"] = "nvidia-ml-py is not installed"
        return found
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        found["error"] = "NVML: " + str(error)
        return found
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            found["gpus"].append(gpu(nvml, index))
        except nvml.NVMLError as error:
            found["error"] = f"NVML: GPU {index}: {error}"
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main()))
