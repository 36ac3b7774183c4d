"""The GPUs as the driver shows them: through NVML, and through `nvidia-smi -q` where NVML does not answer."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from typing import Any

from stoker.host.plain import from_plain
from stoker.host.probes.smi_query import SmiLog, parse_query
from stoker.host.probing import Notes, first_line
from stoker.host.source import Output, Source, Unreadable

SECONDS = 20.0
"""Without persistence mode the driver sets up every card anew for each question, which takes seconds per card."""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a GPU. Memory in MiB; None where a container or MIG hides it."""

    pid: int
    name: str = ""
    kind: str = ""
    memory_mib: float | None = None


@dataclass(frozen=True)
class MigDevice:
    """A MIG instance."""

    index: int | None = None
    instance: int | None = None
    memory_mib: float | None = None


@dataclass(frozen=True)
class Gpu:
    """One GPU. None is unknown, or is what this card does not have: the driver prints `N/A` for both.

    Temperatures in degrees Celsius, power in W, clocks in MHz, memory in MiB, `*_us` in microseconds.

    Attributes:
        index: Its number in nvidia-smi.
        bus_id: PCI address as in sysfs.
        recovery_action: What the driver itself recommends (570 and later): `None`, `Reset`, `Reboot`, `Drain P2P`.
        generation_max: Of this card in this slot; `device_generation_max` of the card, `host_...` of the slot.
        margin_c: Degrees left until it slows down (T.Limit, from Ada and Hopper on).
        slowdown_margin_c: The margin at which it slows down by hardware, such as -2.
        clock_reasons: Why the clocks are below their maximum just now: `sw_power_cap`, `hw_thermal_slowdown`.
        reason_times_us: How long each reason held since the driver was loaded.
        ecc_volatile: Uncorrectable errors since the driver was loaded; `ecc_aggregate` in its life.
        remap_failure: A bad row could not be replaced; `remap_pending` waits for a reset.
        fabric_state: `Completed` where an NVSwitch fabric is set up, `N/A` where there is none.
        broken: Names of fields for which the driver printed an error in place of a value.
    """

    index: int | None = None
    bus_id: str = ""
    name: str = ""
    brand: str = ""
    architecture: str = ""
    uuid: str = ""
    vbios: str = ""
    persistence: bool | None = None
    compute_mode: str = ""
    virtualization: str = ""
    recovery_action: str = ""
    gsp_firmware: str = ""
    addressing_mode: str = ""
    performance_state: str = ""
    generation: int | None = None
    generation_max: int | None = None
    device_generation_max: int | None = None
    host_generation_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    replays: int | None = None
    utilization: float | None = None
    memory_total_mib: float | None = None
    memory_used_mib: float | None = None
    bar1_total_mib: float | None = None
    ecc: bool | None = None
    ecc_pending: bool | None = None
    ecc_volatile: int | None = None
    ecc_aggregate: int | None = None
    ecc_corrected: int | None = None
    sram_threshold_exceeded: bool | None = None
    retired_pages: int | None = None
    retired_pending: bool | None = None
    remapped: int | None = None
    remap_pending: bool | None = None
    remap_failure: bool | None = None
    repair_pending: bool | None = None
    unrepairable: bool | None = None
    temperature_c: float | None = None
    slowdown_c: float | None = None
    max_operating_c: float | None = None
    margin_c: float | None = None
    slowdown_margin_c: float | None = None
    memory_temperature_c: float | None = None
    memory_max_c: float | None = None
    power_draw_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    power_max_w: float | None = None
    clock_sm_mhz: float | None = None
    clock_sm_max_mhz: float | None = None
    clock_memory_mhz: float | None = None
    clock_memory_max_mhz: float | None = None
    clock_reasons: tuple[str, ...] = ()
    reason_times_us: dict[str, int] | None = None
    mig: bool | None = None
    mig_pending: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    fabric_state: str = ""
    fabric_status: str = ""
    processes: tuple[GpuProcess, ...] = ()
    broken: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """For sentences: `GPU 3 (0000:3b:00.0)`."""
        return f"GPU {self.index if self.index is not None else '?'} ({self.bus_id})"


@dataclass(frozen=True)
class Gpus:
    """All GPUs.

    Attributes:
        devices: Those that answered, by index.
        attached: How many the driver says there are.
        lost: Addresses of those that the driver no longer reaches, with what it said.
        source: `nvml`, `nvidia-smi`, or both joined by `+`.
        error: What NVML or nvidia-smi said where they failed.
    """

    devices: tuple[Gpu, ...] = ()
    attached: int | None = None
    lost: dict[str, str] | None = None
    source: str = ""
    error: str = ""


def read(source: Source, notes: Notes) -> Gpus:
    """Read the section."""
    query = source.run(["nvidia-smi", "-q"], timeout=SECONDS)
    smi = parse_query("" if isinstance(query, Unreadable) else query.text + "\n" + query.errors)
    script = resources.files("stoker.host").joinpath("scripts", "nvml.py").read_text(encoding="utf-8")
    nvml, nvml_error = parse_nvml(source.run([sys.executable, "-"], name="nvml", script=script, timeout=SECONDS))
    from_smi = gpus_of(smi)
    devices = merge(nvml, from_smi)
    error = "" if devices else next(iter(smi.lost.values()), "") or _smi_error(query) or nvml_error
    if not devices:
        notes.note("devices", error or "no GPU answered")
    names = [name for name, found in (("nvml", nvml), ("nvidia-smi", from_smi)) if found]
    return Gpus(devices, smi.attached, smi.lost, "+".join(names), error)


def _smi_error(query: Output | Unreadable) -> str:
    if isinstance(query, Unreadable):
        return query.reason
    return first_line(query.text) or first_line(query.errors)


def gpus_of(smi: SmiLog) -> tuple[Gpu, ...]:
    """GPUs of a parsed `nvidia-smi -q`."""
    return tuple(from_plain(Gpu, values) for values in smi.gpus)


def parse_nvml(found: Output | Unreadable) -> tuple[tuple[Gpu, ...], str]:
    """GPUs in what `scripts/nvml.py` prints, and its error."""
    if isinstance(found, Unreadable):
        return (), found.reason
    try:
        content = json.loads(found.text)
        return tuple(from_plain(Gpu, row) for row in content["gpus"]), str(content.get("error") or "")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return (), first_line(found.errors) or "NVML gave no answer that can be read"


def merge(first: tuple[Gpu, ...], second: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of both, by address; a field that the first does not know is taken from the second."""
    others = {gpu.bus_id: gpu for gpu in second}
    merged = [_filled(gpu, others.pop(gpu.bus_id, None)) for gpu in first]
    return tuple(sorted([*merged, *others.values()], key=lambda gpu: (gpu.index is None, gpu.index or 0, gpu.bus_id)))


def _filled(gpu: Gpu, other: Gpu | None) -> Gpu:
    if other is None:
        return gpu
    empty: Mapping[str, Any] = {
        field.name: getattr(other, field.name) for field in fields(Gpu) if getattr(gpu, field.name) in (None, "", ())
    }
    return replace(gpu, **empty)
