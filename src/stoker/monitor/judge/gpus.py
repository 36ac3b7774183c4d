"""What is wrong with a GPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

from stoker.facts.signals import xids
from stoker.monitor.judge.limits import IDLE_FOR, Limits
from stoker.monitor.judge.verdict import Proof, Severity, Verdict
from stoker.monitor.model import Gpu
from stoker.monitor.watch import Key, Moment, gpu_subject

HARD_REASONS = frozenset({"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake", "sw_thermal_slowdown"})
"""Clock events that mean a fault of cooling or power. Idle, the power cap and settings of users are none."""

Judge = Callable[[Gpu, Moment, Limits], Iterator[Verdict]]


def judge_gpu(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    """All that is wrong with one GPU; of a lost one nothing else can be said."""
    if gpu.lost:
        yield _verdict(gpu, "gpu-lost", "fail", said=gpu.error, proofs=[_proof(gpu, "lost", 1.0)])
        return
    for judge in _JUDGES:
        yield from judge(gpu, moment, limits)


def _blocked(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    if gpu.blocked:
        age = [] if gpu.sample_age_seconds is None else [_proof(gpu, "sample_age_seconds", gpu.sample_age_seconds)]
        yield _verdict(gpu, "gpu-blocked", "fail", said=gpu.error, proofs=age)


def _recovery(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    if gpu.recovery_action:
        action = f"{gpu.recovery_action:.0f}"
        yield _verdict(gpu, "gpu-recovery-needed", "fail", proofs=_present(gpu, "recovery_action"), action=action)


def _throttled(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    active = sorted(reason for reason, on in gpu.clock_event_active.items() if on and reason in HARD_REASONS)
    if active:
        proofs = [_proof(gpu, "clock_event_active", 1.0, reason=reason) for reason in active]
        proofs += _present(gpu, "sm_clock_hertz", "temperature_celsius")
        yield _verdict(gpu, "gpu-hardware-slowdown", "warn", quantity="sm_clock_hertz", proofs=proofs)


def _hot(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment
    margin = headroom(gpu, limits)
    if margin is None or margin > limits.thermal_headroom_celsius:
        return
    at_limit = margin <= (gpu.slowdown_margin_celsius or 0.0)
    yield _verdict(
        gpu,
        "gpu-thermal-margin-low",
        "fail" if at_limit else "warn",
        quantity="temperature_celsius",
        proofs=_present(gpu, "temperature_margin_celsius", "temperature_slowdown_celsius", "temperature_celsius"),
        margin=f"{margin:.0f}",
    )


def _idle_with_memory(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    held = sum(process.memory_bytes or 0.0 for process in gpu.processes)
    if not gpu.memory_total_bytes or held < limits.idle_memory_ratio * gpu.memory_total_bytes:
        return
    recent = _recent(moment, gpu, "utilization_ratio", IDLE_FOR)
    if recent and max(recent) < limits.idle_utilization_ratio:
        yield _verdict(
            gpu,
            "gpu-idle-while-memory-held",
            "warn",
            quantity="utilization_ratio",
            proofs=_present(gpu, "utilization_ratio", "memory_used_bytes"),
            minutes=f"{IDLE_FOR / 60:.0f}",
            process=max(gpu.processes, key=lambda one: one.memory_bytes or 0.0).process,
        )


def _xid(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    severities = xid_severities()
    for code, time in gpu.xid_last_time.items():
        if moment.sample.time - time > limits.xid_window_seconds:
            continue
        grave = severities.get(code) in ("critical", "fatal")
        proof = _proof(gpu, "xid_errors", gpu.xid_errors.get(code, 1.0), xid=code)
        yield _verdict(gpu, "gpu-xid", "fail" if grave else "info", proofs=[proof], xid=code)


def _memory_faults(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    faults: tuple[tuple[str, str, Severity], ...] = (
        ("ecc_uncorrected_errors", "gpu-ecc-uncorrectable", "fail"),
        ("row_remap_failure", "gpu-row-remap-failed", "fail"),
        ("row_remap_pending", "gpu-memory-repair-pending", "warn"),
    )
    for name, cause, severity in faults:
        if getattr(gpu, name):
            yield _verdict(gpu, cause, severity, proofs=_present(gpu, name))


def _narrow_link(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    width, full = gpu.pcie_link_width, gpu.pcie_link_width_max
    if width is not None and full is not None and width < full:
        proofs = _present(gpu, "pcie_link_width", "pcie_link_width_max")
        yield _verdict(gpu, "gpu-pcie-width-reduced", "warn", proofs=proofs, width=f"{width:.0f}", full=f"{full:.0f}")


def _capped(gpu: Gpu, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment
    limit, default = gpu.power_limit_watts, gpu.power_default_limit_watts
    if limit is not None and default is not None and limit < limits.power_cap_ratio * default:
        proofs = _present(gpu, "power_limit_watts", "power_default_limit_watts")
        yield _verdict(gpu, "gpu-power-cap-lowered", "warn", quantity="power_watts", proofs=proofs)


_JUDGES: tuple[Judge, ...] = (
    _blocked,
    _recovery,
    _throttled,
    _hot,
    _idle_with_memory,
    _xid,
    _memory_faults,
    _narrow_link,
    _capped,
)


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


def _recent(moment: Moment, gpu: Gpu, name: str, seconds: float) -> list[float]:
    """The values of the last seconds; none unless the whole time was seen, but for one slot that may be under way."""
    history = moment.history
    slots = max(1, round(seconds / history.step))
    values = history.values(Key(gpu_subject(gpu), name))[-slots:]
    known = [value for value in values if math.isfinite(value)]
    return known if len(known) >= slots - 1 and len(values) == slots else []


def _present(gpu: Gpu, *names: str) -> list[Proof]:
    values = ((name, getattr(gpu, name)) for name in names)
    return [_proof(gpu, name, value) for name, value in values if value is not None]


def _proof(gpu: Gpu, name: str, value: float, **labels: str) -> Proof:
    return Proof(f"gpus.{name}", value, {"gpu": gpu.gpu, **labels})


def _verdict(
    gpu: Gpu,
    cause: str,
    severity: Severity,
    *,
    quantity: str = "",
    proofs: Sequence[Proof] = (),
    said: str = "",
    **values: str | float,
) -> Verdict:
    return Verdict(
        cause=cause,
        severity=severity,
        subject=gpu_subject(gpu),
        quantity=quantity,
        proofs=tuple(proofs),
        said=said,
        values={"gpu": gpu.gpu, **values},
    )
