"""What a run amounts to, from its record: state, time by phase, throughput, metrics. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stoker.report.curve import Curve, Point
from stoker.report.figures import counted, flatten, number, plural
from stoker.report.metrics import STEP_PHASES, Metrics, StepPhase
from stoker.report.rows import as_int, as_list, as_mapping, as_text
from stoker.report.runfolder import Event, RunRecord

RunState = Literal["finished", "stopped", "failed", "unfinished"]
Phase = StepPhase | Literal["evaluation", "checkpoint", "other"]
PHASES: tuple[Phase, ...] = (*STEP_PHASES, "evaluation", "checkpoint", "other")
Split = Literal["training", "evaluation"]

WARM_UP = 0.1
"""Share of the first steps that say nothing of steady speed: compilation, autotuning, cold caches."""

_BEGINNINGS = frozenset({"start", "resume"})
_LOWER_IS_BETTER = frozenset({"loss", "error", "err", "perplexity", "ppl", "mae", "mse", "rmse", "wer", "cer", "fid"})
_NOT_A_GOAL = frozenset({"lr", "throughput", "grad_norm", "loss_scale"})


@dataclass(frozen=True)
class PhaseTime:
    """Seconds that a phase took, and its share of the run's wall time."""

    phase: Phase
    seconds: float
    share: float


@dataclass(frozen=True)
class MetricFigures:
    """The last and the best value of a metric; `best` is None where no value was finite."""

    name: str
    split: Split
    last: Point
    best: Point | None
    lower_is_better: bool


@dataclass(frozen=True)
class RunSummary:
    """The figures of one run.

    Attributes:
        what: What was trained, in a few words of the spec.
        state: See `run_state`.
        steps: Last step reached.
        epoch: Epoch of the last step, from 0 as the run counts it.
        samples: Samples worked through, those of repeated steps included.
        wall_seconds: See `wall_time`.
        restarts: How often the run was begun again in the same folder.
        steady_rate: Median samples/s over the steps after the first 10 %.
        mean_rate: Samples/s over the time of all steps.
        world_size: Number of ranks.
        devices: Their devices, equal ones counted.
        phases: Time by phase, in the order of `PHASES`; a phase that was never recorded is left out.
        metrics: Loss and metrics, evaluation first.
        main: The metric that the headline shows.
        notices: Sentences about what a reader should know before trusting the figures.
    """

    name: str
    path: str
    what: str
    state: RunState
    steps: int
    epoch: float | None
    samples: float
    wall_seconds: float | None
    restarts: int
    steady_rate: float | None
    mean_rate: float | None
    world_size: int | None
    devices: str
    precision: str
    phases: tuple[PhaseTime, ...]
    metrics: tuple[MetricFigures, ...]
    main: MetricFigures | None
    notices: tuple[str, ...]


def summarize(record: RunRecord) -> RunSummary:
    """All figures of a run."""
    metrics = record.metrics
    found = metric_figures(record)
    return RunSummary(
        name=record.name,
        path=as_text(str(record.path)),
        what=describe(record.spec),
        state=run_state(record),
        steps=metrics.last_step,
        epoch=metrics.epoch,
        samples=metrics.samples,
        wall_seconds=wall_time(record),
        restarts=max(0, sum(event.event in _BEGINNINGS for event in record.events) - 1),
        steady_rate=steady_rate(metrics.rates),
        mean_rate=metrics.samples / metrics.seconds if metrics.rates and metrics.seconds else None,
        world_size=as_int(record.environment.get("world_size")),
        devices=devices(record.environment),
        precision=as_text(record.environment.get("precision")),
        phases=time_by_phase(record),
        metrics=found,
        main=main_metric(found),
        notices=notices(record),
    )


def devices(environment: Mapping[str, object]) -> str:
    """The devices of all ranks, equal ones counted; where only one is named, that one.

    >>> devices({"devices": ["NVIDIA H200", "NVIDIA H200"]}), devices({"device": "CPU"})
    ('2 × NVIDIA H200', 'CPU')
    """
    named = [as_text(device) for device in as_list(environment.get("devices"))]
    return counted(named) if named else as_text(environment.get("device"))


def describe(spec: Mapping[str, object]) -> str:
    """The task in a few words: its name, then the plain values next to it, such as the model's name.

    >>> describe({"task": {"name": "image-classification", "model": "resnet18"}})
    'image-classification, model resnet18'
    """
    task = spec.get("task")
    if not isinstance(task, dict):
        return as_text(task)
    flat = flatten(as_mapping(task))
    naming = next((key for key in ("use", "name", "kind", "type") if key in flat), None)
    words = [flat[naming].rsplit("/", 1)[-1]] if naming else []  # a task file without its folders
    flat = {key.removeprefix("options.").removesuffix(".name"): value for key, value in flat.items()}
    words += [f"{key} {flat[key]}" for key in ("model", "arch", "dataset") if key in flat]
    return ", ".join(words)


def run_state(record: RunRecord) -> RunState:
    """How the last attempt ended.

    A failure counts unless the run was begun again after it. `unfinished` says that no end was recorded:
    the run is still going on, or it was killed.
    """
    begin = max((i for i, event in enumerate(record.events) if event.event in _BEGINNINGS), default=0)
    attempt = record.events[begin:]
    if record.failure is not None and not _begun_after(attempt, record.failure.time):
        return "failed"
    names = {event.event for event in attempt}
    if "stop" in names:
        return "stopped"
    return "finished" if "end" in names else "unfinished"


def _begun_after(attempt: Sequence[Event], time: float | None) -> bool:
    """Whether the last attempt began after a time; where either is unknown it did not."""
    first = attempt[0] if attempt else None
    return time is not None and first is not None and first.time is not None and first.time > time


def wall_time(record: RunRecord) -> float | None:
    """Seconds from each beginning to the last event that follows it, summed over the attempts.

    The pauses between attempts do not count. A killed run leaves no last event, so that the sum is at least
    the time of the steps, evaluations and checkpoints that were recorded. None where nothing was.
    """
    times = [(event.time, event.event) for event in record.events if event.time is not None]
    if record.failure is not None and record.failure.time is not None:
        times = sorted([*times, (record.failure.time, "failure")])
    attempts: list[list[float]] = []
    for time, event in times:
        if event in _BEGINNINGS or not attempts:
            attempts.append([])
        attempts[-1].append(time)
    span = sum(max(attempt) - min(attempt) for attempt in attempts)
    known = record.metrics.seconds + record.evaluations.seconds + _checkpoint_seconds(record)
    return max(span, known) or None


def time_by_phase(record: RunRecord) -> tuple[PhaseTime, ...]:
    """Time by phase; `other` is what remains of the wall time: start-up, and all that was not measured."""
    spent: dict[Phase, float] = {**_exposed(record.metrics)}
    if record.evaluations.rows:
        spent["evaluation"] = record.evaluations.seconds
    if any(event.event == "checkpoint" for event in record.events):
        spent["checkpoint"] = _checkpoint_seconds(record)
    known = sum(spent.values())
    total = max(wall_time(record) or 0.0, known)
    if total == 0.0:
        return ()
    spent["other"] = total - known
    return tuple(PhaseTime(phase, spent[phase], spent[phase] / total) for phase in PHASES if phase in spent)


def _exposed(metrics: Metrics) -> dict[StepPhase, float]:
    """Seconds by phase without what of the wait for data lies behind computing.

    Beside a GPU the host waits for the next batch while the device still computes the last one. The phases
    then add up to more than the steps took; the excess cost nothing, and is no time that went into waiting.
    """
    phases = dict(metrics.phases)
    overlap = sum(phases.values()) - metrics.seconds
    if "data" in phases and metrics.seconds and overlap > 0:
        phases["data"] = max(0.0, phases["data"] - overlap)
    return phases


def _checkpoint_seconds(record: RunRecord) -> float:
    return sum(event.seconds or 0.0 for event in record.events if event.event == "checkpoint")


def steady_rate(rates: Sequence[float]) -> float | None:
    """Median over the steps after the first 10 %, at least one step; None without any."""
    steady = rates[min(math.ceil(len(rates) * WARM_UP), len(rates) - 1) :] if rates else ()
    return statistics.median(steady) if steady else None


def lower_is_better(name: str) -> bool:
    """Whether a metric falls as a model gets better, by the words of its name.

    >>> lower_is_better("val_loss"), lower_is_better("top5_error"), lower_is_better("accuracy")
    (True, True, False)
    """
    return not _LOWER_IS_BETTER.isdisjoint(name.lower().replace("-", "_").replace("/", "_").split("_"))


def metric_figures(record: RunRecord) -> tuple[MetricFigures, ...]:
    """The loss and the task's metrics: those of evaluations, then those of training."""
    return tuple(
        _figures(name, split, curve)
        for split, curves in _splits(record)
        for name, curve in curves.items()
        if name not in _NOT_A_GOAL
    )


def _splits(record: RunRecord) -> tuple[tuple[Split, Mapping[str, Curve]], ...]:
    return ("evaluation", record.evaluations.curves), ("training", record.metrics.curves)


def _figures(name: str, split: Split, curve: Curve) -> MetricFigures:
    lower = lower_is_better(name)
    return MetricFigures(name, split, curve.last, curve.low if lower else curve.high, lower)


def main_metric(metrics: Sequence[MetricFigures]) -> MetricFigures | None:
    """The metric for the headline: evaluation before training, accuracy before others before loss."""

    def rank(metric: MetricFigures) -> tuple[bool, bool, bool]:
        return metric.split == "training", metric.name == "loss", "acc" not in metric.name.lower()

    return min(metrics, key=rank, default=None)


def notices(record: RunRecord) -> tuple[str, ...]:
    """What a reader should know before trusting the figures."""
    metrics = record.metrics
    found: list[str] = []
    for split, curves in _splits(record):
        for name, curve in curves.items():
            if curve.bad:
                at = number(curve.first_bad, 9)
                found.append(f"{name} ({split}) was not finite {plural(curve.bad, 'time')}, first at step {at}")
    if metrics.skipped:
        found.append(f"{plural(metrics.skipped, 'step')} skipped because fp16 overflowed: the loss scale was lowered")
    if metrics.repeated:
        twice = plural(metrics.repeated, "step")
        found.append(f"{twice} done twice, after a resume: totals count both, curves show the later")
    return (*found, *record.notes)


def epoch_text(epoch: float) -> str:
    """The epoch that was begun, counted from one as people do; the run counts from zero.

    >>> epoch_text(0), epoch_text(19.0), epoch_text(2.5)
    ('1', '20', '3')
    """
    return f"{math.floor(epoch) + 1:,}"
