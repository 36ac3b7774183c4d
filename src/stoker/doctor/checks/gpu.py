"""Each GPU: is it there, its memory, temperature, power, clocks, MIG, and who uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, warn
from stoker.doctor.checks.lookup import PCI_LIST, describe, gpu_source, is_geforce, model_of
from stoker.finding import Evidence
from stoker.host.probes.gpus import Gpu, GpuProcess
from stoker.host.snapshot import Snapshot


def _each(machine: Snapshot, wrong: Callable[[Gpu], bool]) -> list[Gpu]:
    return [gpu for gpu in machine.gpus.devices if wrong(gpu)]


def _shows(machine: Snapshot, gpu: Gpu, text: str) -> Evidence:
    return seen(gpu_source(machine), f"{gpu.label}: {text}")


def _names(gpus: list[Gpu]) -> str:
    return ", ".join(f"GPU {gpu.index}" for gpu in gpus[:8])


@check("gpu-count", needs=("card",))
def gpu_count(machine: Snapshot) -> Iterator[Found]:
    """The bus, the driver and the device files must count the same cards."""
    lost = machine.gpus.lost or {}
    fallen = [line for line in machine.kernel_log.lines if "fallen off the bus" in line]
    for address, sentence in lost.items():
        yield fail(
            "gpu-fallen-off-bus",
            f"The GPU {address} no longer answers: it has fallen off the PCIe bus.",
            seen("nvidia-smi -q", sentence),
            *(seen(machine.kernel_log.source, line) for line in fallen[:1]),
            gpu=address,
        )
    answering = {gpu.bus_id for gpu in machine.gpus.devices}
    silent = [
        card for card in machine.pci.gpus() if card.driver == "nvidia" and card.address not in answering | set(lost)
    ]
    if answering and silent:
        yield fail(
            "rm-init-adapter-failed",
            f"{len(silent)} of {len(machine.pci.gpus())} GPUs on the bus are not shown by the driver.",
            *(seen(PCI_LIST, describe(card)) for card in silent[:4]),
        )
    elif not answering and fallen and not lost:
        yield fail(
            "gpu-fallen-off-bus",
            "A GPU has fallen off the PCIe bus.",
            seen(machine.kernel_log.source, fallen[0]),
            gpu="",
        )


@check("gpu-answers", needs=("gpu",))
def gpu_answers(machine: Snapshot) -> Iterator[Found]:
    """A card that prints errors in place of values answers only in part."""
    for gpu in _each(machine, lambda gpu: bool(gpu.broken)):
        fields = ", ".join(gpu.broken[:3])
        yield fail(
            "gpu-reports-err",
            f"{gpu.label} gives errors in place of values.",
            _shows(machine, gpu, f"error in {fields}"),
        )


@check("recovery-action", needs=("gpu",))
def recovery_action(machine: Snapshot) -> Iterator[Found]:
    """From driver 570 on the driver itself says what a faulty card needs."""
    known = _each(machine, lambda gpu: bool(gpu.recovery_action))
    if not known:
        yield fine("This driver does not report a recovery action (570 and later do).")
    for gpu in known:
        if gpu.recovery_action not in ("None",):
            yield fail(
                "xid-154-recovery-action",
                f"The driver asks for this of {gpu.label}: {gpu.recovery_action}.",
                _shows(machine, gpu, f"GPU Recovery Action: {gpu.recovery_action}"),
                gpu=str(gpu.index),
            )


@check("ecc-errors", needs=("gpu",))
def ecc_errors(machine: Snapshot) -> Iterator[Found]:
    """Errors that ECC could not correct, since the driver was loaded."""
    if not _each(machine, lambda gpu: gpu.ecc_volatile is not None):
        yield fine("No GPU here counts ECC errors.")
    for gpu in _each(machine, lambda gpu: (gpu.ecc_volatile or 0) > 0):
        yield fail(
            "uncorrectable-ecc-error",
            f"{gpu.label} had {gpu.ecc_volatile} memory errors that ECC could not correct.",
            _shows(machine, gpu, f"ECC Errors, Volatile, uncorrectable: {gpu.ecc_volatile}"),
            gpu=str(gpu.index),
        )
    for gpu in _each(machine, lambda gpu: gpu.sram_threshold_exceeded is True):
        yield fail(
            "xid-172-sram-uncorrectable",
            f"{gpu.label} had more errors in its on-chip memory than it may.",
            _shows(machine, gpu, "SRAM Threshold Exceeded: Yes"),
            gpu=str(gpu.index),
        )


@check("ecc-mode", needs=("gpu",))
def ecc_mode(machine: Snapshot) -> Iterator[Found]:
    """ECC off on a card that has it lets wrong results through."""
    off = _each(machine, lambda gpu: gpu.ecc is False and not is_geforce(gpu))
    if off:  # workstation cards are delivered so
        make = info if all("RTX" in gpu.name or "Quadro" in gpu.name for gpu in off) else warn
        yield make(
            "ecc-disabled", f"ECC is off on {_names(off)}.", _shows(machine, off[0], "ECC Mode, Current: Disabled")
        )
    changing = _each(
        machine, lambda gpu: gpu.ecc is not None and gpu.ecc_pending is not None and gpu.ecc != gpu.ecc_pending
    )
    if changing:
        yield info(
            "ecc-change-pending",
            f"ECC mode of {_names(changing)} changes with the next reset.",
            _shows(machine, changing[0], f"ECC Mode, Pending: {'Enabled' if changing[0].ecc_pending else 'Disabled'}"),
        )


@check("row-remap", needs=("gpu",))
def row_remap(machine: Snapshot) -> Iterator[Found]:
    """Bad rows of memory are replaced at a reset, as long as there are spare ones."""
    for gpu in _each(machine, lambda gpu: gpu.remap_failure is True):
        yield fail(
            "row-remap-failed",
            f"{gpu.label} has a bad memory row that it cannot replace.",
            _shows(machine, gpu, "Remapping Failure Occurred: Yes"),
            gpu=str(gpu.index),
        )
    for gpu in _each(machine, lambda gpu: gpu.remap_pending is True and not gpu.remap_failure):
        yield fail(
            "row-remap-pending-reset",
            f"{gpu.label} waits for a reset to replace a bad memory row.",
            _shows(machine, gpu, "Remapped Rows, Pending: Yes"),
            gpu=str(gpu.index),
        )


@check("retired-pages", needs=("gpu",))
def retired_pages(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Cards before Ampere retire pages in place of rows."""
    for gpu in _each(machine, lambda gpu: gpu.retired_pending is True):
        yield fail(
            "row-remap-pending-reset",
            f"{gpu.label} waits for a reset to retire a bad memory page.",
            _shows(machine, gpu, "Retired Pages, Pending: Yes"),
            gpu=str(gpu.index),
        )
    for gpu in _each(machine, lambda gpu: (gpu.retired_pages or 0) >= limits["max_pages"]):
        yield fail(
            "row-remap-failed",
            f"{gpu.label} has retired {gpu.retired_pages} memory pages.",
            _shows(machine, gpu, f"Retired Pages: {gpu.retired_pages}"),
            gpu=str(gpu.index),
        )


@check("memory-repair", needs=("gpu",))
def memory_repair(machine: Snapshot) -> Iterator[Found]:
    """Newer cards repair channels and processors too."""
    for gpu in _each(machine, lambda gpu: gpu.unrepairable is True):
        yield fail(
            "row-remap-failed",
            f"{gpu.label} has memory that cannot be repaired.",
            _shows(machine, gpu, "Unrepairable Memory: Yes"),
            gpu=str(gpu.index),
        )
    for gpu in _each(machine, lambda gpu: gpu.repair_pending is True):
        yield fail(
            "row-remap-pending-reset",
            f"{gpu.label} waits for a reset to repair itself.",
            _shows(machine, gpu, "Repair Pending: Yes"),
            gpu=str(gpu.index),
        )


@check("temperature", needs=("gpu",))
def temperature(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """By the margin to its own limit (T.Limit) where the card gives one, as from Ada on, else by its degrees."""
    for gpu in machine.gpus.devices:
        if set(gpu.clock_reasons) & {"hw_thermal_slowdown", "sw_thermal_slowdown"}:
            continue  # said by clock-events
        if gpu.margin_c is not None:
            if gpu.margin_c <= limits["margin_warn_c"]:
                yield warn(
                    "gpu-thermal-throttling",
                    f"{gpu.label} is {gpu.margin_c:g} degrees from slowing down.",
                    _shows(machine, gpu, f"GPU T.Limit Temp: {gpu.margin_c:g} C"),
                    gpu=str(gpu.index),
                )
        elif gpu.temperature_c is not None:
            model = model_of(machine, gpu)
            limit = gpu.max_operating_c or (model.max_temp_c if model else None) or limits["fallback_c"]
            if gpu.temperature_c >= limit:
                yield warn(
                    "gpu-thermal-throttling",
                    f"{gpu.label} has {gpu.temperature_c:g} degrees; its highest operating temperature is {limit:g}.",
                    _shows(machine, gpu, f"GPU Current Temp: {gpu.temperature_c:g} C"),
                    gpu=str(gpu.index),
                )


@check("memory-temperature", needs=("gpu",))
def memory_temperature(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """HBM has a limit of its own, which it can reach while the chip is still cool."""
    hot = _each(
        machine,
        lambda gpu: (
            gpu.memory_temperature_c is not None
            and gpu.memory_temperature_c >= (gpu.memory_max_c or limits["memory_c"])
        ),
    )
    for gpu in hot:
        yield warn(
            "gpu-thermal-throttling",
            f"The memory of {gpu.label} has {gpu.memory_temperature_c:g} degrees.",
            _shows(machine, gpu, f"Memory Current Temp: {gpu.memory_temperature_c:g} C"),
            gpu=str(gpu.index),
        )


@check("clock-events", needs=("gpu",))
def clock_events(machine: Snapshot) -> Iterator[Found]:
    """Why the clocks are below their maximum just now: heat and the server's power brake are faults, load is none."""
    for gpu in machine.gpus.devices:
        reasons = set(gpu.clock_reasons)
        shows = _shows(machine, gpu, f"Clocks Event Reasons: {', '.join(gpu.clock_reasons)}")
        clock = _clock(machine, gpu)
        if "hw_power_brake" in reasons:
            yield fail(
                "power-brake-asserted-by-server",
                f"The server holds the power brake of {gpu.label}.",
                shows,
                *clock,
                gpu=str(gpu.index),
            )
        elif reasons & {"hw_thermal_slowdown", "sw_thermal_slowdown"}:
            degrees = f" at {gpu.temperature_c:g} degrees" if gpu.temperature_c is not None else ""
            yield warn(
                "gpu-thermal-throttling",
                f"{gpu.label} lowers its clocks because of heat{degrees}.",
                shows,
                *clock,
                gpu=str(gpu.index),
            )
        elif "hw_slowdown" in reasons:
            yield fail(
                "power-brake-asserted-by-server",
                f"The hardware slows {gpu.label} down, and not because of heat.",
                shows,
                *clock,
                gpu=str(gpu.index),
            )


def _clock(machine: Snapshot, gpu: Gpu) -> list[Evidence]:
    if gpu.clock_sm_mhz is None or gpu.clock_sm_max_mhz is None:
        return []
    return [_shows(machine, gpu, f"SM clock {gpu.clock_sm_mhz:g} of {gpu.clock_sm_max_mhz:g} MHz")]


@check("thermal-limit", needs=("gpu",))
def thermal_limit(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Some servers lower the card's temperature limit, so that it slows down while cool."""
    for gpu in _each(machine, lambda gpu: gpu.max_operating_c is not None and gpu.max_operating_c < limits["lowest_c"]):
        yield fail(
            "thermal-limit-lowered-by-platform",
            f"{gpu.label} may not get warmer than {gpu.max_operating_c:g} degrees.",
            _shows(machine, gpu, f"GPU Max Operating Temp: {gpu.max_operating_c:g} C"),
            gpu=str(gpu.index),
        )


@check("power-limit", needs=("gpu",))
def power_limit(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """A card that draws up to its limit is normal; a limit below the default makes a straggler."""
    for gpu in machine.gpus.devices:
        if (
            gpu.power_limit_w is not None
            and gpu.power_default_w
            and gpu.power_limit_w < gpu.power_default_w * limits["of_default"]
        ):
            yield warn(
                "power-limit-lowered",
                f"{gpu.label} may draw {gpu.power_limit_w:g} W, and its default is {gpu.power_default_w:g} W.",
                _shows(machine, gpu, f"power limit {gpu.power_limit_w:g} W, default {gpu.power_default_w:g} W"),
                gpu=str(gpu.index),
                watts=f"{gpu.power_default_w:g}",
            )


@check("clocks", needs=("gpu",))
def clocks(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Under load the SM clock stays near its maximum, unless power or heat hold it down."""
    for gpu in machine.gpus.devices:
        if gpu.clock_sm_mhz is None or not gpu.clock_sm_max_mhz or (gpu.utilization or 0) < limits["busy_percent"]:
            continue
        if gpu.clock_sm_mhz < gpu.clock_sm_max_mhz * limits["of_maximum"] and not set(gpu.clock_reasons) - {
            "applications_clocks"
        }:
            yield warn(
                "clocks-low-under-load",
                f"{gpu.label} is busy at {gpu.clock_sm_mhz:g} of {gpu.clock_sm_max_mhz:g} MHz, and gives no reason.",
                *_clock(machine, gpu),
                gpu=str(gpu.index),
            )


@check("gpus-alike", needs=("gpu",))
def gpus_alike(machine: Snapshot) -> Iterator[Found]:
    """The slowest card sets the pace of all."""
    models = Counter(gpu.name for gpu in machine.gpus.devices if gpu.name)
    if len(models) > 1:
        kinds = ", ".join(f"{count} x {name}" for name, count in models.items())
        yield info("gpus-differ", f"The GPUs are of different models: {kinds}.", seen(gpu_source(machine), kinds))
        return
    versions = Counter(gpu.vbios for gpu in machine.gpus.devices if gpu.vbios)
    if len(versions) > 1:
        kinds = ", ".join(f"{count} x {name}" for name, count in versions.items())
        yield info("gpus-differ", f"The GPUs have different VBIOS versions: {kinds}.", seen(gpu_source(machine), kinds))


@check("compute-mode", needs=("gpu",))
def compute_mode(machine: Snapshot) -> Iterator[Found]:
    """In exclusive mode a second process on the card is refused, and in prohibited mode every one."""
    for gpu in _each(machine, lambda gpu: gpu.compute_mode in ("Exclusive_Process", "Prohibited", "Exclusive_Thread")):
        make = fail if gpu.compute_mode == "Prohibited" else info
        yield make(
            "compute-mode-not-default",
            f"The compute mode of {gpu.label} is {gpu.compute_mode}.",
            _shows(machine, gpu, f"Compute Mode: {gpu.compute_mode}"),
            gpu=str(gpu.index),
        )


@check("mig", needs=("gpu",))
def mig(machine: Snapshot) -> Iterator[Found]:
    """A card in MIG mode without instances has nothing to run on."""
    if not _each(machine, lambda gpu: gpu.mig is not None):
        yield fine("No GPU here has MIG.")
    for gpu in _each(
        machine, lambda gpu: gpu.mig is not None and gpu.mig_pending is not None and gpu.mig != gpu.mig_pending
    ):
        yield warn(
            "mig-change-pending",
            f"MIG mode of {gpu.label} changes only with a reset.",
            _shows(machine, gpu, f"MIG Mode, Pending: {'Enabled' if gpu.mig_pending else 'Disabled'}"),
            gpu=str(gpu.index),
        )
    for gpu in _each(machine, lambda gpu: gpu.mig is True and gpu.mig_pending is not False and not gpu.mig_devices):
        if "nvidia-smi" in machine.gpus.source:
            yield fail(
                "mig-without-instances",
                f"{gpu.label} is in MIG mode and has no instance.",
                _shows(machine, gpu, "MIG Mode: Enabled, and no MIG Device"),
                gpu=str(gpu.index),
            )


@check("gpu-memory-held", needs=("gpu",))
def gpu_memory_held(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Memory that is used although no process is shown: a dead process, or one in a container that cannot be seen."""
    for gpu in machine.gpus.devices:
        if gpu.memory_used_mib is None or gpu.processes or gpu.mig_devices or machine.container.kind:
            continue
        if gpu.memory_used_mib > limits["mib"]:
            yield warn(
                "gpu-memory-held-by-nobody",
                f"{gpu.memory_used_mib:.0f} MiB of {gpu.label} are in use, and no process is shown.",
                _shows(machine, gpu, f"FB Memory Usage, Used: {gpu.memory_used_mib:.0f} MiB; Processes: None"),
                gpu=str(gpu.index),
            )


@check("gpu-processes", needs=("gpu",))
def gpu_processes(machine: Snapshot) -> Iterator[Found]:
    """Who uses the cards now: a run that is started beside them gets less."""
    busy = _each(machine, lambda gpu: any(process.kind == "C" for process in gpu.processes))
    if busy:
        shown = [_shows(machine, gpu, _process(one)) for gpu in busy for one in gpu.processes[:2] if one.kind == "C"]
        yield info("other-process-holds-gpu-memory", f"Processes compute on {_names(busy)}.", *shown[:6])


def _process(one: GpuProcess) -> str:
    memory = "" if one.memory_mib is None else f" {one.memory_mib:.0f} MiB"
    return f"process {one.pid} {one.name}{memory}"
