"""What is wrong with a run: alone, and together with the GPUs that it uses."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence

from stoker.monitor.judge.limits import WAIT_OVER, Limits
from stoker.monitor.judge.verdict import Case, Proof, Verdict
from stoker.monitor.model import Gpu, Run
from stoker.monitor.watch import Moment, run_subject

BESIDE_STEPS = frozenset({"evaluate", "checkpoint"})
"""What a run may do for long without a step: then it is not called stalled."""

Judge = Callable[[Run, Case], Iterator[Verdict]]


def judge_run(run: Run, moment: Moment, limits: Limits) -> Iterator[Verdict]:
    """All that is wrong with one run."""
    case = Case(run_subject(run), "runs", run, {"folder": run.folder}, {"run": run.run}, moment, limits)
    for judge in _JUDGES:
        yield from judge(run, case)


def gpus_of(run: Run, gpus: Sequence[Gpu]) -> list[Gpu]:
    """The GPUs that a run uses."""
    return [gpu for gpu in gpus if gpu.gpu in run.gpus]


def _ended_badly(run: Run, case: Case) -> Iterator[Verdict]:
    if run.state in ("failed", "killed"):
        yield case.verdict(f"run-{run.state}", "fail", said=run.finding_title)


def _not_moving(run: Run, case: Case) -> Iterator[Verdict]:
    """Hung where its GPUs are busy all the same, stalled where they are not, or tell nothing."""
    waited = run.since_step_seconds
    if waited is None or waited < _patience(run, case.limits):
        return
    gpus = gpus_of(run, case.moment.sample.gpus)
    use = [(gpu.gpu, gpu.utilization_ratio) for gpu in gpus if gpu.utilization_ratio is not None]
    hung = bool(use) and statistics.median(ratio for _, ratio in use) >= case.limits.busy_utilization_ratio
    proofs = case.present("since_step_seconds")
    proofs += [Proof("gpus.utilization_ratio", ratio, {"gpu": gpu}) for gpu, ratio in use[:2]]
    cause = "run-hung" if hung else "run-stalled"
    yield case.verdict(cause, "fail", quantity="since_step_seconds", proofs=proofs, seconds=waited)


def _patience(run: Run, limits: Limits) -> float:
    """Seconds that a run may take for what it does now."""
    if run.state == "starting":
        return limits.starting_seconds
    if run.state != "running" or run.activity in BESIDE_STEPS:
        return math.inf
    return max(limits.stalled_seconds, limits.stalled_steps * (run.step_seconds or 0.0))


def _starved(run: Run, case: Case) -> Iterator[Verdict]:
    if run.state != "running":
        return
    waits = case.recent("data_wait_ratio", WAIT_OVER)
    mean = statistics.fmean(waits) if waits else 0.0
    if mean >= case.limits.data_wait_ratio:
        proofs = case.present("data_wait_ratio")
        percent = f"{100 * mean:.0f}"
        yield case.verdict("run-data-starved", "warn", quantity="data_wait_ratio", proofs=proofs, percent=percent)


def _not_a_number(run: Run, case: Case) -> Iterator[Verdict]:
    if run.loss is not None and not math.isfinite(run.loss):
        yield case.verdict("run-loss-not-finite", "fail", quantity="loss", proofs=case.present("loss"))


def _unsaved(run: Run, case: Case) -> Iterator[Verdict]:
    age = run.checkpoint_age_seconds
    if age is not None and age > case.limits.checkpoint_age_seconds:
        proofs = case.present("checkpoint_age_seconds")
        quantity = "checkpoint_age_seconds"
        yield case.verdict("run-checkpoint-too-old", "warn", quantity=quantity, proofs=proofs, seconds=age)


_JUDGES: tuple[Judge, ...] = (_ended_badly, _not_moving, _starved, _not_a_number, _unsaved)
