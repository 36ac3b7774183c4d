"""What is wrong with a run: alone, and together with the GPUs that it uses."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from stoker.monitor.judge.limits import WAIT_OVER, Limits
from stoker.monitor.judge.verdict import Proof, Severity, Verdict
from stoker.monitor.model import Gpu, Run
from stoker.monitor.watch import Key, Moment, run_subject

BESIDE_STEPS = frozenset({"evaluate", "checkpoint"})
"""What a run may do for long without a step: then it is not called stalled."""

Judge = Callable[[Run, Moment, Limits], Iterator[Verdict]]


def judge_run(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    """All that is wrong with one run."""
    for judge in _JUDGES:
        yield from judge(run, moment, limits)


def gpus_of(run: Run, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that a run uses."""
    return [gpu for gpu in gpus if gpu.gpu in run.gpus]


def _ended_badly(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    if run.state in ("failed", "killed"):
        yield _verdict(run, f"run-{run.state}", "fail", said=run.finding_title)


def _not_moving(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    """Hung where its GPUs are busy all the same, stalled where they are not, or tell nothing."""
    waited = run.since_step_seconds
    if waited is None or waited < _patience(run, limits):
        return
    gpus = gpus_of(run, moment.sample.gpus)
    use = [(gpu.gpu, gpu.utilization_ratio) for gpu in gpus if gpu.utilization_ratio is not None]
    hung = bool(use) and statistics.median(ratio for _, ratio in use) >= limits.busy_utilization_ratio
    proofs = [_proof(run, "since_step_seconds", waited)]
    proofs += [Proof("gpus.utilization_ratio", ratio, {"gpu": gpu}) for gpu, ratio in use[:2]]
    cause = "run-hung" if hung else "run-stalled"
    yield _verdict(run, cause, "fail", quantity="since_step_seconds", proofs=proofs, seconds=waited)


def _patience(run: Run, limits: Limits) -> float:
    """Seconds that a run may take for what it does now."""
    if run.state == "starting":
        return limits.starting_seconds
    if run.state != "running" or run.activity in BESIDE_STEPS:
        return math.inf
    return max(limits.stalled_seconds, limits.stalled_steps * (run.step_seconds or 0.0))


def _starved(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    if run.state != "running" or run.data_wait_ratio is None:
        return
    history = moment.history
    slots = max(1, round(WAIT_OVER / history.step))
    values = history.values(Key(run_subject(run), "data_wait_ratio"))[-slots:]
    known = [value for value in values if math.isfinite(value)]
    if len(known) < slots - 1:
        return
    mean = statistics.fmean(known)
    if mean >= limits.data_wait_ratio:
        proofs = [_proof(run, "data_wait_ratio", run.data_wait_ratio)]
        percent = f"{100 * mean:.0f}"
        yield _verdict(run, "run-data-starved", "warn", quantity="data_wait_ratio", proofs=proofs, percent=percent)


def _not_a_number(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment, limits
    if run.loss is not None and not math.isfinite(run.loss):
        yield _verdict(run, "run-loss-not-finite", "fail", quantity="loss", proofs=[_proof(run, "loss", run.loss)])


def _unsaved(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    del moment
    age = run.checkpoint_age_seconds
    if age is not None and age > limits.checkpoint_age_seconds:
        proofs = [_proof(run, "checkpoint_age_seconds", age)]
        yield _verdict(
            run, "run-checkpoint-too-old", "warn", quantity="checkpoint_age_seconds", proofs=proofs, seconds=age
        )


_JUDGES: tuple[Judge, ...] = (_ended_badly, _not_moving, _starved, _not_a_number, _unsaved)


def _proof(run: Run, name: str, value: float) -> Proof:
    return Proof(f"runs.{name}", value, {"folder": run.folder})


def _verdict(
    run: Run,
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
        subject=run_subject(run),
        quantity=quantity,
        proofs=tuple(proofs),
        said=said,
        values={"run": run.run, **values},
    )
