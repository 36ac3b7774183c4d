"""GPUs and their processes as a screen shows them."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.monitor.model import Gpu, GpuProcess, MigInstance
from stoker.monitor.view.readings import Quantity, Readings
from stoker.monitor.view.screen import Badge, GpuView, Level, ProcessView, Reading
from stoker.monitor.view.words import Unit, Words
from stoker.monitor.watch import Moment, gpu_subject
from stoker.report.figures import UNKNOWN, clean

BUSY_FROM = 0.05
"""A GPU that works for a smaller share of the time is called idle: a desktop or a monitor asks for that much."""
COLDEST = 20.0
"""Lower end of the temperatures' axis, in degrees Celsius: air that cools a server is hardly colder."""
HOTTEST = 95.0
"""Upper end where the GPU tells neither limit nor margin."""

_MORE = (
    Quantity("sm_activity_ratio", "share"),
    Quantity("tensor_activity_ratio", "share"),
    Quantity("dram_activity_ratio", "share"),
    Quantity("memory_utilization_ratio", "share"),
    Quantity("memory_free_bytes", "bytes"),
    Quantity("memory_reserved_bytes", "bytes"),
    Quantity("memory_temperature_celsius", "celsius"),
    Quantity("temperature_margin_celsius", "celsius"),
    Quantity("fan_speed_ratio", "share"),
    Quantity("power_default_limit_watts", "watts"),
    Quantity("energy_joules", "joules"),
    Quantity("memory_clock_hertz", "hertz"),
    Quantity("pcie_replays", "count"),
    Quantity("ecc_corrected_errors", "count"),
    Quantity("ecc_uncorrected_errors", "count"),
    Quantity("row_remap_pending", "yes"),
    Quantity("row_remap_failure", "yes"),
    Quantity("retired_pages_pending", "yes"),
    Quantity("persistence_mode", "yes"),
    Quantity("mig_mode", "yes"),
    Quantity("sample_age_seconds", "seconds"),
)


def gpu_view(gpu: Gpu, words: Words, moment: Moment, badges: Sequence[Badge], levels: dict[str, Level]) -> GpuView:
    """One GPU.

    Args:
        gpu: Its sample.
        words: The texts.
        moment: What is known of the machine.
        badges: What was found to be wrong with it, in a word each.
        levels: How its values stand, by the name of the quantity.
    """
    make = Readings(words, moment, subject=gpu_subject(gpu), room="gpus", labels={"gpu": gpu.gpu}, levels=levels)
    return GpuView(
        uuid=gpu.uuid,
        index=gpu.gpu,
        name=words("gpu.name", gpu=gpu.gpu),
        model=clean(gpu.model),
        badges=(*badges, *_occupation(gpu, words, badges)),
        main=_main(gpu, words, make),
        more=tuple(_more(gpu, words, make)),
    )


def process_views(gpus: Sequence[Gpu], words: Words, run_names: dict[str, str]) -> tuple[ProcessView, ...]:
    """All processes, by GPU, the largest first."""
    return tuple(
        _process_view(gpu, process, words, run_names)
        for gpu in gpus
        for process in sorted(gpu.processes, key=lambda one: -(one.memory_bytes or 0.0))
    )


def short_model(model: str) -> str:
    """A card's name without what all of them share.

    >>> short_model("NVIDIA H100 80GB HBM3"), short_model("NVIDIA GeForce RTX 4090")
    ('H100 80GB HBM3', 'RTX 4090')
    """
    return model.removeprefix("NVIDIA ").removeprefix("GeForce ").removeprefix("Tesla ")


def _occupation(gpu: Gpu, words: Words, badges: Sequence[Badge]) -> list[Badge]:
    """Whether it works; a GPU with something wrong need not be called so too."""
    if gpu.utilization_ratio is None or badges:
        return []
    busy = gpu.utilization_ratio >= BUSY_FROM
    return [Badge(words("gpu.busy"), "good") if busy else Badge(words("gpu.idle"), "calm")]


def _main(gpu: Gpu, words: Words, make: Readings) -> tuple[Reading, ...]:
    """The columns of the table of GPUs, the same for each."""
    total = gpu.memory_total_bytes or 0.0
    limit = gpu.power_limit_watts or 0.0
    fastest = gpu.sm_clock_max_hertz or 0.0
    return (
        make.of(Quantity("utilization_ratio", "share", 0), gpu.utilization_ratio, scale=(0.0, 1.0)),
        make.of(
            Quantity("memory_used_bytes", "bytes", 3),
            gpu.memory_used_bytes,
            note=_of(words, "bytes", gpu.memory_total_bytes),
            scale=(0.0, total),
        ),
        make.of(
            Quantity("temperature_celsius", "celsius", 1),
            gpu.temperature_celsius,
            note=_margin(gpu, words),
            scale=(COLDEST, _hottest(gpu)),
        ),
        make.of(
            Quantity("power_watts", "watts", 4),
            gpu.power_watts,
            note=_of(words, "watts", gpu.power_limit_watts),
            scale=(0.0, limit),
        ),
        make.of(
            Quantity("sm_clock_hertz", "hertz", 2),
            gpu.sm_clock_hertz,
            note=words("of", whole=f"{fastest / 1e6:,.0f}") if fastest else "",
            scale=(0.0, fastest),
        ),
    )


def _more(gpu: Gpu, words: Words, make: Readings) -> list[Reading]:
    """All else, as far as it was measured."""
    plain = [make.of(quantity, getattr(gpu, quantity.name)) for quantity in _MORE]
    rates = [make.rate(Quantity(f"pcie_{way}_rate", "rate")) for way in ("receive", "transmit")]
    counted = [
        _counted("pcie_link", _link(gpu), words),
        _counted("nvlink_up", _up(gpu), words),
        _counted("xid_errors", ", ".join(f"{code} × {count:.0f}" for code, count in gpu.xid_errors.items()), words),
        _counted("mig_instances", ", ".join(_instance(part, words) for part in gpu.mig_instances), words),
        _counted("clock_events", ", ".join(_reasons(gpu, words)), words),
        _counted("uuid", clean(gpu.uuid), words),
        _counted("pci", clean(gpu.pci), words),
    ]
    return [reading for reading in (*plain, *rates, *counted) if reading.text not in ("", UNKNOWN)]


def _counted(name: str, text: str, words: Words) -> Reading:
    """A reading made of several values."""
    return Reading(name=name, label=words(f"quantity.{name}"), text=text)


def _link(gpu: Gpu) -> str:
    if gpu.pcie_link_generation is None or gpu.pcie_link_width is None:
        return ""
    return f"Gen{gpu.pcie_link_generation:.0f} ×{gpu.pcie_link_width:.0f}"


def _up(gpu: Gpu) -> str:
    return f"{sum(gpu.nvlink_up.values()):.0f} / {len(gpu.nvlink_up)}" if gpu.nvlink_up else ""


def _instance(part: MigInstance, words: Words) -> str:
    used = words.written(part.memory_used_bytes, "bytes")
    return f"{clean(part.profile) or part.instance}: {used} {_of(words, 'bytes', part.memory_total_bytes)}".strip()


def _reasons(gpu: Gpu, words: Words) -> list[str]:
    active = [reason for reason, on in gpu.clock_event_active.items() if on]
    return [words(f"reason.{reason}") if words.has(f"reason.{reason}") else reason for reason in active]


def _of(words: Words, unit: Unit, whole: float | None) -> str:
    return "" if whole is None else words("of", whole=words.written(whole, unit))


def _margin(gpu: Gpu, words: Words) -> str:
    if gpu.temperature_margin_celsius is not None:
        return words("margin", margin=f"{gpu.temperature_margin_celsius:.0f} °C")
    return _of(words, "celsius", gpu.temperature_slowdown_celsius)


def _hottest(gpu: Gpu) -> float:
    """Where the GPU slows down: told as a limit, or as a margin to the present temperature."""
    if gpu.temperature_slowdown_celsius is not None:
        return gpu.temperature_slowdown_celsius
    if gpu.temperature_celsius is not None and gpu.temperature_margin_celsius is not None:
        return gpu.temperature_celsius + gpu.temperature_margin_celsius
    return HOTTEST


def _process_view(gpu: Gpu, process: GpuProcess, words: Words, run_names: dict[str, str]) -> ProcessView:
    places = [clean(process.container), words("slurm", job=clean(process.slurm_job)) if process.slurm_job else ""]
    return ProcessView(
        gpu=gpu.gpu,
        pid=str(process.pid),
        name=clean(process.process),
        user=clean(process.user),
        memory=words.written(process.memory_bytes, "bytes"),
        place=" · ".join(place for place in places if place),
        run=run_names.get(process.run, clean(process.run)),
    )
