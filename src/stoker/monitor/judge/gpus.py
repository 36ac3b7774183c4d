"""What is wrong with a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache

from stoker.facts.signals import xids
from stoker.monitor.judge.limits import IDLE_FOR, Limits
from stoker.monitor.judge.verdict import Case, Severity, Verdict
from stoker.monitor.model import Gpu
from stoker.monitor.watch import Moment, gpu_subject

HARD_REASONS = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake", "sw_thermal_slowdown"})
"""Clock events that mean a fault of cooling or power. Idle, the power cap and settings of users are none."""

MEMORY_FAULTS: tuple[tuple[str, str, Severity], ...] = (
    ("ecc_uncorrected_errors", "gpu-ecc-uncorrectable", "fail"),
    ("row_remap_failure", "gpu-row-remap-failed", "fail"),
    ("row_remap_pending", "gpu-memory-repair-pending", "warn"),
)
"""Fields that are wrong as soon as they are not zero, with cause and severity."""

Judge = Callable[[Gpu, Case], Iterator[Verdict]]


def judge_gpu(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    """All that is wrong with one GPU; of a lost one nothing else can be said."""
    name = {"gpu": gpu.gpu}
    case = Case(gpu_subject(gpu), "gpus", gpu, name, name, moment, limits)
    if gpu.lost:
        yield case.verdict("gpu-lost", "fail", said=gpu.error, proofs=[case.proof("lost", 1.0)])
        return
    for judge in _JUDGES:
        yield from judge(gpu, case)


def headroom(gpu: Gpu, limits: Limits) -> float | None:
    """Degrees until the GPU is slowed down: as it tells, else up to the driver's limit, else up to the model's."""
    if gpu.temperature_margin_celsius is not None:
        return gpu.temperature_margin_celsius
    limit = gpu.temperature_slowdown_celsius
    if limit is None:
        limit = limits.slowdown_celsius(gpu.model)
    return None if limit is None or gpu.temperature_celsius is None else limit - gpu.temperature_celsius


@cache
def xid_severities() -> Mapping[str, str]:
    """The severity of each Xid code that is known."""
    return {str(code): row.severity for code, row in xids().items()}


def _blocked(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    if gpu.blocked:
        yield case.verdict("gpu-blocked", "fail", said=gpu.error, proofs=case.present("sample_age_seconds"))


def _recovery(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    if gpu.recovery_action:
        action = f"{gpu.recovery_action:.0f}"
        yield case.verdict("gpu-recovery-needed", "fail", proofs=case.present("recovery_action"), action=action)


def _throttled(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    active = sorted(reason for reason, on in gpu.clock_event_active.items() if on and reason in HARD_REASONS)
    if active:
        proofs = [case.proof("clock_event_active", 1.0, reason=reason) for reason in active]
        proofs += case.present("sm_clock_hertz", "temperature_celsius")
        yield case.verdict("gpu-hardware-slowdown", "warn", quantity="sm_clock_hertz", proofs=proofs)


def _hot(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    margin = headroom(gpu, case.limits)
    if margin is None or margin > case.limits.thermal_headroom_celsius:
        return
    yield case.verdict(
        "gpu-thermal-margin-low",
        "fail" if margin <= (gpu.slowdown_margin_celsius or 0.0) else "warn",
        quantity="temperature_celsius",
        proofs=case.present("temperature_margin_celsius", "temperature_slowdown_celsius", "temperature_celsius"),
        margin=f"{margin:.0f}",
    )


def _idle_while_memory_held(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    held = sum(process.memory_bytes or 0.0 for process in gpu.processes)
    if not gpu.memory_total_bytes or held < case.limits.idle_memory_ratio * gpu.memory_total_bytes:
        return
    recent = case.recent("utilization_ratio", IDLE_FOR)
    if recent and max(recent) < case.limits.idle_utilization_ratio:
        yield case.verdict(
            "gpu-idle-while-memory-held",
            "warn",
            quantity="utilization_ratio",
            proofs=case.present("utilization_ratio", "memory_used_bytes"),
            minutes=f"{IDLE_FOR / 60:.0f}",
            process=max(gpu.processes, key=lambda one: one.memory_bytes or 0.0).process,
        )


def _xid(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    for code, time in gpu.xid_last_time.items():
        if case.moment.sample.time - time > case.limits.xid_window_seconds:
            continue
        grave = xid_severities().get(code) in ("critical", "fatal")
        proof = case.proof("xid_errors", gpu.xid_errors.get(code, 1.0), xid=code)
        yield case.verdict("gpu-xid", "fail" if grave else "info", proofs=[proof], xid=code)


def _memory_faults(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    for name, cause, severity in MEMORY_FAULTS:
        if getattr(gpu, name):
            yield case.verdict(cause, severity, proofs=case.present(name))


def _narrow_link(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    width, full = gpu.pcie_link_width, gpu.pcie_link_width_max
    if width is not None and full is not None and width < full:
        proofs = case.present("pcie_link_width", "pcie_link_width_max")
        yield case.verdict("gpu-pcie-width-reduced", "warn", proofs=proofs, width=f"{width:.0f}", full=f"{full:.0f}")


def _capped(gpu: Gpu, case: Case) -> Iterator[Verdict]:
    limit, default = gpu.power_limit_watts, gpu.power_default_limit_watts
    if limit is not None and default is not None and limit < case.limits.power_cap_ratio * default:
        proofs = case.present("power_limit_watts", "power_default_limit_watts")
        yield case.verdict("gpu-power-cap-lowered", "warn", quantity="power_watts", proofs=proofs)


_JUDGES: tuple[Judge, ...] = (
    _blocked,
    _recovery,
    _throttled,
    _hot,
    _idle_while_memory_held,
    _xid,
    _memory_faults,
    _narrow_link,
    _capped,
)
