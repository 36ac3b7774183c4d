"""One sentence about where a run's time went and what would shorten it. Pure functions.

The limits are rules of thumb of this project, set so that a sentence appears only where acting on it can
win about as much time as the limit says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from stoker.report.figures import duration, percent
from stoker.report.rows import as_int, as_mapping
from stoker.report.summary import Phase, PhaseTime

LIMITS: Mapping[Phase, float] = {
    "data": 0.1,
    "checkpoint": 0.1,
    "evaluation": 0.25,
    "optimizer": 0.3,
    "other": 0.3,
}
"""Share of the wall time from which a phase is worth a sentence."""

DEFAULT_WORKERS = 4
"""Data workers per rank to try at least."""
MOST_RANKS = 8
"""Ranks on one machine at most, since a server has 1 to 8 GPUs: a larger world spans machines."""

Tree = Mapping[str, object]


def time_sentence(phases: Sequence[PhaseTime], spec: Tree, environment: Tree) -> str:
    """What the split of time means, for the phase that stands out most.

    >>> from stoker.report.summary import PhaseTime
    >>> split = [PhaseTime("data", 28.0, 0.28), PhaseTime("forward", 72.0, 0.72)]
    >>> time_sentence(split, {"data": {"workers": 2}}, {})
    '28 % of the time went into waiting for data: try data.workers=4.'
    """
    if not phases:
        return "No times were recorded."
    share = {phase.phase: phase for phase in phases}
    if not share.keys() & {"forward", "backward"} and share["other"].share > 0.5:
        return "The phases of a step were not recorded, so that it stays unknown what the time went into."
    worst = max(
        (phase for phase in phases if phase.share >= LIMITS.get(phase.phase, 2.0)),
        key=lambda phase: phase.share / LIMITS[phase.phase],
        default=None,
    )
    if worst is None:
        computing = sum(share[phase].share for phase in ("forward", "backward", "optimizer") if phase in share)
        return f"{percent(computing)} of the time went into computing, and nothing else stands out."
    return f"{percent(worst.share)} of the time {_ADVICE[worst.phase](worst, spec, environment)}"


def _data(_: PhaseTime, spec: Tree, environment: Tree) -> str:
    workers = as_int(as_mapping(spec.get("data")).get("workers"))
    share = _cores_per_rank(environment)
    wanted = DEFAULT_WORKERS if workers is None else max(DEFAULT_WORKERS, 2 * workers)
    wanted = wanted if share is None else min(wanted, share)
    if workers is not None and wanted <= workers:
        return (
            f"went into waiting for data though data.workers={workers} uses every core: make a sample cheaper"
            " to load, for example by storing it resized or in shards."
        )
    return f"went into waiting for data: try data.workers={wanted}."


def _cores_per_rank(environment: Tree) -> int | None:
    """A rank's share of its machine's CPU cores, at least one; None where the environment names no cores."""
    cpu = environment.get("cpu")
    told = (environment.get("cores"), cpu, as_mapping(cpu).get("cores"))
    cores = next(filter(None, map(as_int, told)), None)
    ranks = min(as_int(environment.get("world_size")) or 1, MOST_RANKS)
    return None if cores is None else max(1, cores // ranks)


def _checkpoint(_: PhaseTime, spec: Tree, __: Tree) -> str:
    often = _key(spec, "checkpoint")
    return f"went into writing checkpoints: write them less often{often}, or to a faster disk."


def _evaluation(_: PhaseTime, spec: Tree, __: Tree) -> str:
    return f"went into evaluation: evaluate less often{_key(spec, 'evaluate')}, or on fewer samples."


def _optimizer(_: PhaseTime, __: Tree, ___: Tree) -> str:
    return "went into optimizer steps: a larger batch, or accumulating gradients, needs fewer of them."


def _other(phase: PhaseTime, _: Tree, __: Tree) -> str:
    return (
        f"({duration(phase.seconds)}) went into start-up and work between the steps: usual for a short run,"
        " in a long one look at the events for gaps."
    )


def _key(spec: Tree, section: str) -> str:
    """The setting that says how often, where the spec has one."""
    names = (name for name in as_mapping(spec.get(section)) if "every" in name or "interval" in name)
    name = next(names, None)
    return f" ({section}.{name})" if name else ""


_ADVICE: Mapping[Phase, Callable[[PhaseTime, Tree, Tree], str]] = {
    "data": _data,
    "checkpoint": _checkpoint,
    "evaluation": _evaluation,
    "optimizer": _optimizer,
    "other": _other,
}
