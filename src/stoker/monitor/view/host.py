"""The machine without its GPUs, and its totals, as a screen shows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stoker.monitor.model import Gpu, MachineSample, Run
from stoker.monitor.view.gpus import BUSY_FROM, short_model
from stoker.monitor.view.readings import Quantity, Readings
from stoker.monitor.view.runs import GOING_ON
from stoker.monitor.view.screen import Level, Reading
from stoker.monitor.view.words import Words
from stoker.monitor.watch import Moment
from stoker.report.figures import clean, counted

_RATES = (
    Quantity("disk_read_rate", "rate", 2),
    Quantity("disk_write_rate", "rate", 4),
    Quantity("network_receive_rate", "rate", 2),
    Quantity("network_transmit_rate", "rate", 4),
    Quantity("infiniband_receive_rate", "rate", 2),
    Quantity("infiniband_transmit_rate", "rate", 4),
)


def what_it_is(sample: MachineSample, words: Words) -> str:
    """GPUs and driver in a line."""
    models = counted(short_model(clean(gpu.model)) for gpu in sample.gpus)
    driver = words("driver", version=clean(sample.exporter.driver)) if sample.exporter.driver else ""
    boot = sample.host.boot_time_seconds
    up = words("up", span=words.span(sample.time - boot)) if boot is not None and boot < sample.time else ""
    return " · ".join(part for part in (models, driver, up) if part)


def summary(sample: MachineSample, words: Words) -> tuple[Reading, ...]:
    """The machine's totals; a total is unknown as soon as no GPU tells it."""
    return tuple(_totals(sample, words))


def host_readings(moment: Moment, words: Words, levels: dict[str, Level]) -> tuple[Reading, ...]:
    """CPU, memory, /dev/shm, file systems, disks and networks."""
    host = moment.sample.host
    make = Readings(words, moment, levels=levels)
    cpus = words("host.cpus", count=f"{host.cpus:.0f}") if host.cpus else ""
    readings = [make.rate(Quantity("cpu_ratio", "share", 0), note=cpus)]
    total, available = host.memory_total_bytes, host.memory_available_bytes
    if total is not None and available is not None:
        used = Quantity("main_memory_used_bytes", "bytes", 3)
        note = words("of", whole=words.written(total, "bytes"))
        readings.append(make.of(used, total - available, note=note, scale=(0.0, total), exported=False))
    if host.shm_used_bytes is not None and host.shm_size_bytes is not None:
        note = words("of", whole=words.written(host.shm_size_bytes, "bytes"))
        shared = Quantity("shm_used_bytes", "bytes", 7)
        readings.append(make.of(shared, host.shm_used_bytes, note=note, scale=(0.0, host.shm_size_bytes)))
    readings += [make.rate(quantity) for quantity in _RATES]
    return tuple(reading for reading in readings if reading.trend is not None or reading.value is not None)


def _totals(sample: MachineSample, words: Words) -> Iterator[Reading]:
    gpus, runs = sample.gpus, sample.runs
    if gpus:
        yield _total("gpus_busy", _busy(gpus, words), words)
    used, total = _sum(gpu.memory_used_bytes for gpu in gpus), _sum(gpu.memory_total_bytes for gpu in gpus)
    if used is not None and total is not None:
        note = words("of", whole=words.written(total, "bytes"))
        yield _total("gpu_memory", words.written(used, "bytes"), words, note)
    power, limit = _sum(gpu.power_watts for gpu in gpus), _sum(gpu.power_limit_watts for gpu in gpus)
    if power is not None:
        note = words("of", whole=words.written(limit, "watts")) if limit is not None else ""
        yield _total("power", words.written(power, "watts"), words, note)
    hottest = max((gpu for gpu in gpus if gpu.temperature_celsius is not None), key=_warmth, default=None)
    if hottest is not None:
        text = words.written(hottest.temperature_celsius, "celsius")
        yield _total("hottest", text, words, words("gpu.name", gpu=hottest.gpu))
    yield _total("runs", *_runs(runs, words))


def _runs(runs: Iterable[Run], words: Words) -> tuple[str, Words, str]:
    states = [run.state for run in runs]
    going = sum(state in GOING_ON for state in states)
    ended = len(states) - going
    return f"{going}", words, words("summary.ended", count=ended) if ended else ""


def _warmth(gpu: Gpu) -> float:
    """How near a GPU is to its limit, where it tells; else how warm it is."""
    margin = gpu.temperature_margin_celsius
    return -margin if margin is not None else (gpu.temperature_celsius or 0.0) - 100.0


def _busy(gpus: Iterable[Gpu], words: Words) -> str:
    known = list(gpus)
    busy = [gpu for gpu in known if gpu.utilization_ratio is not None and gpu.utilization_ratio >= BUSY_FROM]
    return words("summary.busy_of", busy=len(busy), total=len(known))


def _total(name: str, text: str, words: Words, note: str = "") -> Reading:
    return Reading(name=name, label=words(f"summary.{name}"), text=text, note=note)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
