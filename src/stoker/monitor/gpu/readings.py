"""Which driver calls make up a sample. Each function gives some fields of `model.Gpu`, in the model's units."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pynvml

from stoker.monitor.gpu.calls import Asker

Values = dict[str, Any]
MHZ, KIB, MILLI, NANO, PERCENT = 1e6, 1024, 1e-3, 1e-9, 1e-2

CLOCK_EVENTS: Mapping[str, int] = {
    "gpu_idle": pynvml.nvmlClocksEventReasonGpuIdle,
    "application_clocks": pynvml.nvmlClocksEventReasonApplicationsClocksSetting,
    "sw_power_cap": pynvml.nvmlClocksEventReasonSwPowerCap,
    "hw_slowdown": pynvml.nvmlClocksEventReasonHwSlowdown,
    "sync_boost": pynvml.nvmlClocksEventReasonSyncBoost,
    "sw_thermal_slowdown": pynvml.nvmlClocksEventReasonSwThermalSlowdown,
    "hw_thermal_slowdown": pynvml.nvmlClocksEventReasonHwThermalSlowdown,
    "hw_power_brake": pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown,
    "display_clocks": pynvml.nvmlClocksEventReasonDisplayClockSetting,
}
POLICIES: Mapping[str, int] = {
    "power": pynvml.NVML_PERF_POLICY_POWER,
    "thermal": pynvml.NVML_PERF_POLICY_THERMAL,
    "sync_boost": pynvml.NVML_PERF_POLICY_SYNC_BOOST,
    "board_limit": pynvml.NVML_PERF_POLICY_BOARD_LIMIT,
    "low_utilization": pynvml.NVML_PERF_POLICY_LOW_UTILIZATION,
    "reliability": pynvml.NVML_PERF_POLICY_RELIABILITY,
}
_FIELD_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_INT: "siVal",
}
FIELD_GET_RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION: not in bindings before 12.570
_MOST_LINKS = 36  # more than any GPU has


def read_fast(ask: Asker, gpu: Any) -> Values:
    """What changes from second to second and costs little to ask.

    Raises:
        GpuLostError: The GPU is lost.
    """
    values = _memory(ask, gpu) | _fields(ask, gpu)
    if (rates := ask("nvmlDeviceGetUtilizationRates", gpu)) is not None:
        values["utilization_ratio"] = rates.gpu * PERCENT
        values["memory_utilization_ratio"] = rates.memory * PERCENT
    heat = ask("nvmlDeviceGetTemperatureV|nvmlDeviceGetTemperature", gpu, pynvml.NVML_TEMPERATURE_GPU)
    values["temperature_celsius"] = heat
    values["temperature_margin_celsius"] = ask("nvmlDeviceGetMarginTemperature", gpu)
    values["fan_speed_ratio"] = _scaled(_fan_speed(ask, gpu), PERCENT)
    values["power_watts"] = _scaled(ask("nvmlDeviceGetPowerUsage", gpu), MILLI)
    values["power_limit_watts"] = _scaled(ask("nvmlDeviceGetEnforcedPowerLimit", gpu), MILLI)
    values["energy_joules"] = _scaled(ask("nvmlDeviceGetTotalEnergyConsumption", gpu), MILLI)
    values["sm_clock_hertz"] = _scaled(ask("nvmlDeviceGetClockInfo", gpu, pynvml.NVML_CLOCK_SM), MHZ)
    values["memory_clock_hertz"] = _scaled(ask("nvmlDeviceGetClockInfo", gpu, pynvml.NVML_CLOCK_MEM), MHZ)
    values["pcie_link_generation"] = ask("nvmlDeviceGetCurrPcieLinkGeneration", gpu)
    values["pcie_link_width"] = ask("nvmlDeviceGetCurrPcieLinkWidth", gpu)
    values["clock_event_active"] = _clock_events(ask, gpu)
    return values


def read_slow(ask: Asker, gpu: Any, *, pcie_counted: bool) -> Values:
    """What changes seldom, or costs the driver or the bus something to tell.

    Args:
        ask: Asks the driver.
        gpu: The device.
        pcie_counted: The card counts PCIe bytes itself, so that its rates need not be measured, 20 ms each way.

    Raises:
        GpuLostError: The GPU is lost.
    """
    values = _limits(ask, gpu) | _memory_errors(ask, gpu) | _nvlinks(ask, gpu) | _fabric(ask, gpu)
    values["throttled_seconds"] = {
        name: status.violationTime * NANO
        for name, policy in POLICIES.items()
        if (status := ask("nvmlDeviceGetViolationStatus", gpu, policy)) is not None
    }
    for kind in ("encoder", "decoder"):
        use = ask(f"nvmlDeviceGet{kind.capitalize()}Utilization", gpu)
        values[f"{kind}_utilization_ratio"] = None if use is None else use[0] * PERCENT
    values["pcie_replays"] = ask("nvmlDeviceGetPcieReplayCounter", gpu)
    values["persistence_mode"] = ask("nvmlDeviceGetPersistenceMode", gpu)
    if not pcie_counted:
        sent = ask("nvmlDeviceGetPcieThroughput", gpu, pynvml.NVML_PCIE_UTIL_TX_BYTES)
        received = ask("nvmlDeviceGetPcieThroughput", gpu, pynvml.NVML_PCIE_UTIL_RX_BYTES)
        values["pcie_transmit_bytes_per_second"] = _scaled(sent, KIB)
        values["pcie_receive_bytes_per_second"] = _scaled(received, KIB)
    return values


def read_processes(ask: Asker, gpu: Any) -> Values:
    """Processes that hold memory of the GPU: pid and bytes.

    Raises:
        GpuLostError: The GPU is lost.
    """
    found: dict[int, int | None] = {}
    for name in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        for process in ask(f"{name}_v3|{name}", gpu) or ():
            found[process.pid] = process.usedGpuMemory
    return {"processes": [{"pid": pid, "memory_bytes": memory} for pid, memory in sorted(found.items())]}


def field_values(ask: Asker, gpu: Any, wanted: list[int | tuple[int, int]]) -> list[float | None]:
    """The values of numbered fields, each by itself None where the card does not have it.

    Args:
        ask: Asks the driver.
        gpu: The device.
        wanted: Field numbers, or pairs of field number and scope, such as a link.

    Raises:
        GpuLostError: The GPU is lost.
    """
    answer = ask("nvmlDeviceGetFieldValues", gpu, wanted)
    if answer is None:
        return [None] * len(wanted)
    return [_field_value(value) for value in answer]


def _field_value(value: Any) -> float | None:
    member = _FIELD_MEMBERS.get(value.valueType)
    return getattr(value.value, member) if value.nvmlReturn == pynvml.NVML_SUCCESS and member is not None else None


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor


def _memory(ask: Asker, device: Any) -> Values:
    """Version 1 of the call counts what the driver reserves as used: it stands in only where version 2 is missing."""
    memory = ask("nvmlDeviceGetMemoryInfo", device, pynvml.nvmlMemory_v2)
    reserved = getattr(memory, "reserved", None)
    if memory is None:
        memory = ask("nvmlDeviceGetMemoryInfo", device)
    if memory is None:
        return {}
    return {
        "memory_used_bytes": memory.used,
        "memory_free_bytes": memory.free,
        "memory_total_bytes": memory.total,
        "memory_reserved_bytes": reserved,
    }


def read_memory(ask: Asker, device: Any) -> Values:
    """Memory of a GPU or MIG device.

    Raises:
        GpuLostError: The GPU is lost.
    """
    return _memory(ask, device)


def _fields(ask: Asker, gpu: Any) -> Values:
    names = {
        "memory_temperature_celsius": pynvml.NVML_FI_DEV_MEMORY_TEMP,
        "pcie_transmit_bytes": pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES,
        "pcie_receive_bytes": pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES,
    }
    values = dict(zip(names, field_values(ask, gpu, list(names.values())), strict=True))
    if values["memory_temperature_celsius"] == 0:  # what parts without the sensor say
        values["memory_temperature_celsius"] = None
    return values


def _fan_speed(ask: Asker, gpu: Any) -> float | None:
    speed = ask("nvmlDeviceGetFanSpeed_v2", gpu, 0)
    return ask("nvmlDeviceGetFanSpeed", gpu) if speed is None else speed


def _clock_events(ask: Asker, gpu: Any) -> dict[str, int]:
    mask = ask("nvmlDeviceGetCurrentClocksEventReasons|nvmlDeviceGetCurrentClocksThrottleReasons", gpu)
    return {} if mask is None else {reason: int(bool(mask & bit)) for reason, bit in CLOCK_EVENTS.items()}


def _limits(ask: Asker, gpu: Any) -> Values:
    def threshold(kind: int) -> float | None:
        found = ask("nvmlDeviceGetTemperatureThreshold", gpu, kind)
        return found or None  # 0 where the card tells its limits as margins

    (slowdown_margin,) = field_values(ask, gpu, [pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT])
    max_clock = "nvmlDeviceGetMaxClockInfo"
    return {
        "temperature_slowdown_celsius": threshold(pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN),
        "temperature_shutdown_celsius": threshold(pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN),
        "memory_temperature_max_celsius": threshold(pynvml.NVML_TEMPERATURE_THRESHOLD_MEM_MAX),
        "slowdown_margin_celsius": slowdown_margin,
        "power_default_limit_watts": _scaled(ask("nvmlDeviceGetPowerManagementDefaultLimit", gpu), MILLI),
        "sm_clock_max_hertz": _scaled(ask(max_clock, gpu, pynvml.NVML_CLOCK_SM), MHZ),
        "memory_clock_max_hertz": _scaled(ask(max_clock, gpu, pynvml.NVML_CLOCK_MEM), MHZ),
        "pcie_link_generation_max": ask("nvmlDeviceGetMaxPcieLinkGeneration", gpu),
        "pcie_link_width_max": ask("nvmlDeviceGetMaxPcieLinkWidth", gpu),
    }


def _memory_errors(ask: Asker, gpu: Any) -> Values:
    values: Values = {}
    for name, kind in (
        ("corrected", pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        ("uncorrected", pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    ):
        errors = "nvmlDeviceGetTotalEccErrors"
        values[f"ecc_{name}_errors"] = ask(errors, gpu, kind, pynvml.NVML_VOLATILE_ECC)
        values[f"ecc_{name}_aggregate_errors"] = ask(errors, gpu, kind, pynvml.NVML_AGGREGATE_ECC)
    mode = ask("nvmlDeviceGetEccMode", gpu)
    values["ecc_mode"] = None if mode is None else mode[0]
    values["sram_ecc_threshold_exceeded"] = _sram_threshold(ask, gpu)
    if (rows := ask("nvmlDeviceGetRemappedRows", gpu)) is not None:
        corrected, uncorrected, pending, failure = rows
        values["remapped_rows"] = {"corrected": corrected, "uncorrected": uncorrected}
        values |= {"row_remap_pending": pending, "row_remap_failure": failure}
    values["retired_pages"] = {
        name: len(pages)
        for name, cause in (
            ("corrected", pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS),
            ("uncorrected", pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR),
        )
        if (pages := ask("nvmlDeviceGetRetiredPages", gpu, cause)) is not None
    }
    values["retired_pages_pending"] = ask("nvmlDeviceGetRetiredPagesPendingStatus", gpu)
    (values["recovery_action"],) = field_values(ask, gpu, [FIELD_GET_RECOVERY_ACTION])
    return values


def _sram_threshold(ask: Asker, gpu: Any) -> int | None:
    status: Any = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    done = ask("nvmlDeviceGetSramEccErrorStatus", gpu, pynvml.byref(status))
    return None if done is None else status.bThresholdExceeded


def _nvlinks(ask: Asker, gpu: Any) -> Values:
    """State and counters of each NVLink. Bytes come in KiB; the first link that is not there ends the list."""
    up: dict[str, int] = {}
    for link in range(_MOST_LINKS):
        state = ask("nvmlDeviceGetNvLinkState", gpu, link)
        if state is None:
            break
        up[str(link)] = state
    values: Values = {"nvlink_up": up}
    counters = {
        "nvlink_transmit_bytes": (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, KIB),
        "nvlink_receive_bytes": (pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, KIB),
        "nvlink_crc_errors": (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC, 1),
        "nvlink_replay_errors": (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY, 1),
        "nvlink_recovery_errors": (pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY, 1),
    }
    for name, (field, factor) in counters.items() if up else ():
        found = field_values(ask, gpu, [(field, int(link)) for link in up])
        values[name] = {link: value * factor for link, value in zip(up, found, strict=True) if value is not None}
    return values


def _fabric(ask: Asker, gpu: Any) -> Values:
    """State of the NVSwitch fabric; 0 means that the GPU is in none."""
    about: Any = pynvml.c_nvmlGpuFabricInfoV_t()
    if ask("nvmlDeviceGetGpuFabricInfoV", gpu, pynvml.byref(about)) is not None:
        state = about.state & 0xFF
        return {"fabric_state": state, "fabric_degraded": _degraded(about.healthMask)} if state else {}
    old: Any = pynvml.c_nvmlGpuFabricInfo_t()
    if ask("nvmlDeviceGetGpuFabricInfo", gpu, pynvml.byref(old)) is not None and old.state & 0xFF:
        return {"fabric_state": old.state & 0xFF}
    return {}


def _degraded(health_mask: int) -> int | None:
    """Bandwidth's two bits of the mask: 1 degraded, 2 not, 0 not told."""
    return {1: 1, 2: 0}.get(health_mask & 0b11)
