"""What the figures of a run say about it. Pure functions: from facts to what was noticed, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from stoker.doctor.runs.facts import RunFacts
from stoker.finding import Evidence
from stoker.report.advice import LIMITS
from stoker.report.figures import percent
from stoker.report.metrics import StepPhase

MIN_STEPS = 20
"""Fewer steps say nothing about a run's pace."""
MIN_SECONDS = 2.0
"""A shorter run is over before anything could be gained."""
SLOWER = 1.25
"""From this ratio of late to early steps on a run slows down; below it is what machines do anyway."""
WINDOWS = 5
"""Stretches into which a run is cut to see whether its steps take longer and longer."""
WARM_UP = 0.1
"""Share of the steps that is left out at the start: workers, caches, compilation and clocks settle."""
MIN_SILENCE = 60.0
"""Seconds without a sign of life that nobody needs to worry about."""
START_SILENCE = 900.0
"""The same before the first step: loading, compiling and NCCL's start take minutes on large jobs."""
STEPS_OF_SILENCE = 20
"""A run that is silent for this many of its steps, or for three of its longest pauses, is stalled."""


@dataclass(frozen=True)
class Noticed:
    """A cause of `signatures/run.yaml` and what shows it."""

    cause: str
    confidence: float
    evidence: tuple[Evidence, ...]


def starved_of_data(facts: RunFacts) -> Noticed | None:
    """The share of the steps' time that went into waiting for samples; the first step starts the readers."""
    steps = facts.steps
    total, waited = sum(steps.seconds[1:]), sum(steps.phases["data"][1:]) if steps.phases else 0.0
    if len(steps) < MIN_STEPS or total < MIN_SECONDS or waited < LIMITS["data"] * total:
        return None
    text = (
        f"steps {steps.step[1]:.0f} to {steps.step[-1]:.0f}: {waited:.1f} s of {total:.1f} s "
        f"({percent(waited / total)}) waiting for data"
    )
    confidence = 0.9 if waited > 2 * LIMITS["data"] * total else 0.7
    return Noticed("run-starved-of-data", confidence, (Evidence(text, source="metrics.jsonl"),))


def slow_checkpoints(facts: RunFacts) -> Noticed | None:
    """The share of the run's time that saves held it up."""
    held = [one.seconds for one in facts.events if one.event == "checkpoint" and one.seconds is not None]
    total = sum(facts.steps.seconds) + sum(held) + sum(facts.evaluations)
    if not held or total < MIN_SECONDS or sum(held) < LIMITS["checkpoint"] * total or len(facts.steps) < MIN_STEPS:
        return None
    text = (
        f"{len(held)} checkpoints held the run up for {sum(held):.1f} s of {total:.1f} s ({percent(sum(held) / total)})"
    )
    return Noticed("run-checkpoints-too-slow", 0.85, (Evidence(text, source="events.jsonl"),))


def slows_down(facts: RunFacts) -> Noticed | None:
    """Whether steps take longer in each stretch of the run than in the one before, and which phase grows."""
    steps = facts.steps
    begin = int(len(steps) * WARM_UP)
    size = (len(steps) - begin) // WINDOWS
    if size < MIN_STEPS // 2 or sum(steps.seconds) < MIN_SECONDS:
        return None
    spans = [(begin + number * size, begin + (number + 1) * size) for number in range(WINDOWS)]
    medians = [median(steps.seconds[low:high]) for low, high in spans]
    rises = sum(later >= earlier for earlier, later in pairwise(medians))
    if medians[-1] < SLOWER * medians[0] or rises < WINDOWS - 2 or max(medians) > 1.2 * medians[-1]:
        return None
    (low, high), (late_low, late_high) = spans[0], spans[-1]
    text = (
        f"a step took {medians[0]:.3g} s at first (median of steps {steps.step[low]:.0f} to "
        f"{steps.step[high - 1]:.0f}) "
        f"and {medians[-1]:.3g} s at last (steps {steps.step[late_low]:.0f} to {steps.step[late_high - 1]:.0f}), "
        f"{medians[-1] / medians[0]:.1f} times as long"
    )
    grown: dict[StepPhase, float] = {
        phase: median(column[late_low:late_high]) - median(column[low:high]) for phase, column in steps.phases.items()
    }
    if grown and max(grown.values()) > 0:
        text += f"; most of it grew in: {max(grown, key=lambda phase: grown[phase])}"
    return Noticed("run-slows-down", 0.75, (Evidence(text, source="metrics.jsonl"),))


def stalled(facts: RunFacts) -> Noticed | None:
    """A process that lives and has been silent for much longer than its steps and pauses take."""
    if facts.state != "running" or facts.silent is None:
        return None
    pauses = [one.seconds for one in facts.events if one.seconds is not None] + list(facts.evaluations)
    longest = max(pauses, default=0.0)
    typical = median(facts.steps.seconds) if len(facts.steps) else None
    patience = START_SILENCE if typical is None else max(MIN_SILENCE, STEPS_OF_SILENCE * typical, 3 * longest)
    if facts.silent <= patience:
        return None
    pace = (
        "no step was ever made"
        if typical is None
        else f"a step took {typical:.3g} s (the longest pause {max(longest, max(facts.steps.seconds)):.3g} s)"
    )
    text = (
        f"process {facts.environment.get('pid')} is alive; the last sign of life in the run folder is "
        f"{facts.silent:.0f} s old, and {pace}"
    )
    return Noticed("run-stalled", 0.9, (Evidence(text, source=str(facts.folder)),))


def gone(facts: RunFacts) -> Noticed | None:
    """A process that died without writing an end or a failure."""
    if facts.state != "gone":
        return None
    last = facts.events[-1] if facts.events else None
    ends = f"ends with {last.event} at step {last.step}" if last else "is empty"
    text = f"events.jsonl {ends}, and process {facts.environment.get('pid')} is gone"
    return Noticed("run-ended-without-a-word", 0.85, (Evidence(text, source="events.jsonl"),))


def disk_nearly_full(facts: RunFacts) -> Noticed | None:
    """Less room than one more checkpoint takes, for a run that will write one."""
    if facts.free is None or facts.checkpoint is None or facts.free >= facts.checkpoint:
        return None
    if facts.state in ("finished", "unknown"):
        return None
    text = f"{_size(facts.free)} are free where the run folder is, and a checkpoint takes {_size(facts.checkpoint)}"
    return Noticed("run-disk-nearly-full", 0.9, (Evidence(text, source=str(facts.folder)),))


def _size(count: int) -> str:
    """Bytes with a decimal unit.

    >>> _size(3_400_000_000)
    '3.4 GB'
    """
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} TB"


CHECKS: tuple[Callable[[RunFacts], Noticed | None], ...] = (
    stalled,
    gone,
    disk_nearly_full,
    starved_of_data,
    slow_checkpoints,
    slows_down,
)
