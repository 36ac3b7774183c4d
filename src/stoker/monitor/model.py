"""What is known of one machine at one moment: plain typed data, and its JSON.

A field that is None, or a mapping without an entry, was not measured: the card does not have it, the driver does not
tell, or the last value is too old to be shown. It is never zero instead. Units are those of Prometheus: bytes,
seconds, hertz, watts, joules, degrees Celsius, and shares from 0 to 1. Fields whose row in `tables/metrics.csv` is a
counter only ever grow, and start again from zero with the driver, the machine or the sampler.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from stoker.run_status import RunState

Record = TypeVar("Record")
PerName = Mapping[str, float]
"""A value for each link, reason, code or the like, by its name."""


def _nothing() -> PerName:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU.

    Attributes:
        pid: As the exporter's own pid namespace counts.
        process: Its name, as the kernel has it: at most 15 characters.
        user: Its owner's name, or number where it has no name here.
        memory_bytes: Of this GPU; None where the driver does not tell.
        container: First 12 characters of the container's id; empty outside of containers.
        slurm_job: Number of the Slurm job; empty outside of jobs.
        run: Folder of the stoker run it belongs to; empty if it belongs to none.
    """

    pid: int
    process: str = ""
    user: str = ""
    memory_bytes: float | None = None
    container: str = ""
    slurm_job: str = ""
    run: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class MigInstance:
    """A part of a GPU in MIG mode."""

    instance: str
    """Number of the GPU instance."""
    profile: str = ""
    """Such as `3g.40gb`."""
    mig_uuid: str = ""
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    sm_activity_ratio: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        gpu: Its index, as `nvidia-smi` counts.
        uuid: Stays the same when the index does not.
        model: Such as `NVIDIA H100 80GB HBM3`.
        pci: Its address, such as `0000:19:00.0`.
        lost: It was there and the driver does not reach it any more.
        blocked: A driver call on it has not come back within the time limit.
        error: What the driver last said instead of a value; empty if all is well.
        sample_age_seconds: Since its last complete sample; None before the first one.
        sample_duration_seconds: How long the last complete sample took.
        sm_activity_ratio: Share of multiprocessors at work; Hopper and newer.
        dram_activity_ratio: Share of the memory's cycles in use; Hopper and newer.
        temperature_margin_celsius: Degrees until the driver slows the GPU down.
        slowdown_margin_celsius: The margin at which the hardware slows down, where limits are told as margins.
        clock_event_active: 1 for each reason that holds the clocks down now, 0 for each that does not.
        clock_event_seconds: For how long each reason has held the clocks down.
        throttled_seconds: The driver's own account of time under each policy.
        fabric_state: 0 unsupported, 1 not started, 2 in progress, 3 completed.
        recovery_action: What the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset.
        xid_errors: Errors since the sampler began, by Xid code.
        xid_last_time: Unix time of the last error, by Xid code.
    """

    gpu: str
    uuid: str
    model: str = ""
    pci: str = ""
    lost: bool = False
    blocked: bool = False
    error: str = ""
    sample_age_seconds: float | None = None
    sample_duration_seconds: float | None = None

    utilization_ratio: float | None = None
    memory_utilization_ratio: float | None = None
    encoder_utilization_ratio: float | None = None
    decoder_utilization_ratio: float | None = None
    sm_activity_ratio: float | None = None
    tensor_activity_ratio: float | None = None
    dram_activity_ratio: float | None = None

    memory_used_bytes: float | None = None
    memory_free_bytes: float | None = None
    memory_reserved_bytes: float | None = None
    memory_total_bytes: float | None = None

    temperature_celsius: float | None = None
    temperature_margin_celsius: float | None = None
    temperature_slowdown_celsius: float | None = None
    temperature_shutdown_celsius: float | None = None
    slowdown_margin_celsius: float | None = None
    memory_temperature_celsius: float | None = None
    memory_temperature_max_celsius: float | None = None
    fan_speed_ratio: float | None = None

    power_watts: float | None = None
    power_limit_watts: float | None = None
    power_default_limit_watts: float | None = None
    energy_joules: float | None = None

    sm_clock_hertz: float | None = None
    sm_clock_max_hertz: float | None = None
    memory_clock_hertz: float | None = None
    memory_clock_max_hertz: float | None = None
    clock_event_active: PerName = field(default_factory=_nothing)
    clock_event_seconds: PerName = field(default_factory=_nothing)
    throttled_seconds: PerName = field(default_factory=_nothing)

    pcie_link_generation: float | None = None
    pcie_link_generation_max: float | None = None
    pcie_link_width: float | None = None
    pcie_link_width_max: float | None = None
    pcie_transmit_bytes: float | None = None
    pcie_receive_bytes: float | None = None
    pcie_transmit_bytes_per_second: float | None = None
    pcie_receive_bytes_per_second: float | None = None
    pcie_replays: float | None = None

    nvlink_up: PerName = field(default_factory=_nothing)
    nvlink_transmit_bytes: PerName = field(default_factory=_nothing)
    nvlink_receive_bytes: PerName = field(default_factory=_nothing)
    nvlink_crc_errors: PerName = field(default_factory=_nothing)
    nvlink_replay_errors: PerName = field(default_factory=_nothing)
    nvlink_recovery_errors: PerName = field(default_factory=_nothing)
    fabric_state: float | None = None
    fabric_degraded: float | None = None

    ecc_mode: float | None = None
    ecc_corrected_errors: float | None = None
    ecc_uncorrected_errors: float | None = None
    ecc_corrected_aggregate_errors: float | None = None
    ecc_uncorrected_aggregate_errors: float | None = None
    sram_ecc_threshold_exceeded: float | None = None
    row_remap_pending: float | None = None
    row_remap_failure: float | None = None
    remapped_rows: PerName = field(default_factory=_nothing)
    retired_pages: PerName = field(default_factory=_nothing)
    retired_pages_pending: float | None = None
    recovery_action: float | None = None
    xid_errors: PerName = field(default_factory=_nothing)
    xid_last_time: PerName = field(default_factory=_nothing)

    persistence_mode: float | None = None
    mig_mode: float | None = None
    mig_instances: tuple[MigInstance, ...] = ()
    processes: tuple[GpuProcess, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Filesystem:
    """A mounted file system."""

    mount: str
    size_bytes: float
    available_bytes: float
    """For users other than root."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Disk:
    """A disk's counters."""

    device: str
    read_bytes: float
    written_bytes: float
    io_seconds: float
    """Time in which at least one request was under way."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Interface:
    """A network interface's counters."""

    device: str
    receive_bytes: float
    transmit_bytes: float
    errors: float
    dropped: float
    up: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class InfinibandPort:
    """A port of an InfiniBand or RoCE adapter."""

    device: str
    port: str
    active: float
    rate_bytes_per_second: float | None = None
    receive_bytes: float | None = None
    transmit_bytes: float | None = None
    errors: PerName = field(default_factory=_nothing)
    """By the kernel's name of the counter, such as `symbol_error` or `link_downed`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Host:
    """The machine without its GPUs.

    Attributes:
        cpu_seconds: By mode: user, system, idle, iowait, ...
        pressure_seconds: Time in which some task waited for `cpu`, `memory` or `io`.
        shm_used_bytes: Of /dev/shm, through which data workers hand over batches.
        gpus_on_bus: NVIDIA GPUs that the PCI bus shows; more than the driver's count means one is lost.
    """

    cpus: float | None = None
    cpu_seconds: PerName = field(default_factory=_nothing)
    pressure_seconds: PerName = field(default_factory=_nothing)
    load1: float | None = None
    memory_total_bytes: float | None = None
    memory_available_bytes: float | None = None
    shm_size_bytes: float | None = None
    shm_used_bytes: float | None = None
    boot_time_seconds: float | None = None
    gpus_on_bus: float | None = None
    filesystems: tuple[Filesystem, ...] = ()
    disks: tuple[Disk, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    infiniband: tuple[InfinibandPort, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A stoker run on this machine.

    Attributes:
        run: The last part of its folder's path.
        folder: Its folder: tells runs apart.
        state: `killed` where its process is gone and it has not said why.
        task: What is trained.
        pid: Of rank 0, as the exporter's own pid namespace counts.
        gpus: Indices of the GPUs that its processes hold memory of.
        since_step_seconds: Since the last step ended, or since the start before the first one. None once it ended.
        step_seconds: A step's usual time: mean over the last ones.
        data_wait_ratio: Share of the last steps' time in which rank 0 waited for samples.
        mfu_ratio: Model FLOPs utilisation, where the model's FLOPs and the card's peak are both known.
        micro_batch_size: Samples that a rank works on at once.
        loss: Of the last step that was accepted: one that is no number ends the run.
        activity: What it does, as far as it says: `train`, `evaluate`, `checkpoint`.
        checkpoint_age_seconds: Since the last checkpoint, or since the start before the first one. None once it
            ended, or where no checkpoints are asked for.
        ended_time: Unix time of its end; None while it runs.
        finding: Identifier of the cause it ended by; empty if it ended well.
        finding_title: The same in a sentence.
    """

    run: str
    folder: str
    state: RunState
    task: str = ""
    user: str = ""
    pid: int | None = None
    gpus: tuple[str, ...] = ()
    world_size: float | None = None
    strategy: str = ""
    precision: str = ""
    slurm_job: str = ""
    activity: str = ""
    started_time: float | None = None
    ended_time: float | None = None
    step: float | None = None
    total_steps: float | None = None
    epoch: float | None = None
    progress_ratio: float | None = None
    loss: float | None = None
    samples: float | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    data_wait_ratio: float | None = None
    mfu_ratio: float | None = None
    micro_batch_size: float | None = None
    since_step_seconds: float | None = None
    checkpoint_age_seconds: float | None = None
    finding: str = ""
    finding_title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Exporter:
    """The watcher itself.

    Attributes:
        nvml_up: 1 if the driver's library answers, 0 if not; `nvml_error` says why.
        gpus_seen: GPUs that were seen since the exporter began, lost ones included.
        sampler_restarts: How often the process that asks the driver died and was started again.
        clock_jump_seconds: Sum of the absolute jumps of the wall clock against the steady one.
    """

    version: str
    driver: str = ""
    nvml_version: str = ""
    nvml_up: float = 0
    nvml_error: str = ""
    gpus_seen: float | None = None
    sampler_restarts: float = 0
    clock_jump_seconds: float = 0
    unreadable_runs: float = 0
    start_time_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineSample:
    """All that is known of a machine at one moment.

    Attributes:
        time: Unix time.
        hostname: The machine's name.
        simulated: The values do not come from hardware: every display has to say so.
    """

    time: float
    hostname: str
    exporter: Exporter
    host: Host = Host()
    gpus: tuple[Gpu, ...] = ()
    runs: tuple[Run, ...] = ()
    simulated: bool = False


def to_json(record: Any) -> dict[str, Any]:
    """A plain dictionary for `json.dumps`; what was not measured is left out, and NaN is a word to JSON.

    >>> to_json(GpuProcess(pid=7, process="python"))
    {'pid': 7, 'process': 'python'}
    """
    found = {entry.name: _plain(getattr(record, entry.name)) for entry in fields(record)}
    return {name: value for name, value in found.items() if value not in (None, "", [], {})}


def from_json(record_type: type[Record], value: Mapping[str, Any]) -> Record:
    """The inverse of `to_json`; keys that this version does not know are passed over.

    Raises:
        ValueError: A needed key is missing, or a value has the wrong type.
    """
    try:
        return record_type(**typed_fields(record_type, value))
    except TypeError as error:
        raise ValueError(f"no {record_type.__name__}: {error}") from error


def typed_fields(record_type: type[Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """Some of a record's fields, as `from_json` takes them to the record.

    Raises:
        ValueError: A value has the wrong type.
    """
    hints = _hints(record_type)  # whose names are interned, unlike JSON's: a call with eighty of them is twice as fast
    return {name: _typed(hint, value[name]) for name, hint in hints.items() if name in value}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return to_json(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _hints(record_type: type[Any]) -> Mapping[str, Any]:
    return get_type_hints(record_type)


def _typed(hint: Any, value: Any) -> Any:
    """`value` as `hint` asks for it: the few kinds of types that stand above."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return None if value is None else _typed(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        return tuple(_typed(get_args(hint)[0], item) for item in _checked(list, value))
    if origin is Literal:
        if value not in get_args(hint):
            raise ValueError(f"{value!r} is none of {', '.join(get_args(hint))}")
        return value
    if is_dataclass(hint):
        return from_json(hint, _checked(dict, value))  # type: ignore[arg-type]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {str(key): _number(item) for key, item in _checked(dict, value).items()}
    return _number(value) if hint is float else _checked(hint, value)


def _number(value: Any) -> float:
    return float(value) if value in ("nan", "inf", "-inf") else float(_checked((int, float), value))


def _checked(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{value!r} is not of type {kind}")
    return value
