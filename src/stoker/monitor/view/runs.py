"""Runs as a screen shows them, each with the GPUs that it uses."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.monitor.model import Run
from stoker.monitor.view.readings import Quantity, Readings
from stoker.monitor.view.screen import Badge, GpuView, Level, Reading, RunView
from stoker.monitor.view.words import Words, anchor_of
from stoker.monitor.watch import Moment, run_subject
from stoker.report.figures import clean

_STATE_LEVEL: dict[str, Level] = {
    "starting": "calm",
    "running": "good",
    "finished": "good",
    "stopped": "warn",
    "failed": "bad",
    "killed": "bad",
}
SHORTEST_WAIT = 60.0
"""The axis of the time since a step ends here or at twenty steps: what is usual lies at its lower end."""
GOING_ON = ("starting", "running")
"""States of a run that has not ended."""


def run_view(
    run: Run, gpus: Sequence[GpuView], words: Words, moment: Moment, badges: Sequence[Badge], levels: dict[str, Level]
) -> RunView:
    """One run.

    Args:
        run: Its sample.
        gpus: The GPUs that it uses.
        words: The texts.
        moment: What is known of the machine.
        badges: What was found to be wrong with it, in a word each.
        levels: How its values stand, by the name of the quantity.
    """
    labels = {"folder": run.folder}
    make = Readings(words, moment, subject=run_subject(run), room="runs", labels=labels, levels=levels)
    return RunView(
        anchor=anchor_of(run.folder),
        name=clean(run.run),
        folder=clean(run.folder),
        badges=(Badge(words(f"state.{run.state}"), "" if badges else _STATE_LEVEL[run.state]), *badges),
        what=" · ".join(_what(run, words)),
        progress=_progress(run),
        progress_text=_progress_text(run, words, moving=not badges),
        steps="/".join(f"{count:,.0f}" for count in (run.step, run.total_steps) if count is not None),
        readings=_readings(run, words, make),
        gpus=tuple(gpus),
    )


def _what(run: Run, words: Words) -> list[str]:
    ranks = words("run.ranks", count=f"{run.world_size:.0f}") if run.world_size else ""
    job = words("slurm", job=clean(run.slurm_job)) if run.slurm_job else ""
    micro = words("run.micro_batch", count=f"{run.micro_batch_size:,.0f}") if run.micro_batch_size else ""
    parts = (clean(run.task), ranks, micro, clean(run.strategy), clean(run.precision), clean(run.user), job)
    return [part for part in parts if part]


def _progress(run: Run) -> float | None:
    if run.progress_ratio is not None:
        return min(1.0, max(0.0, run.progress_ratio))
    if run.step is None or not run.total_steps:
        return None
    return min(1.0, max(0.0, run.step / run.total_steps))


def _progress_text(run: Run, words: Words, *, moving: bool) -> str:
    parts: list[str] = []
    if run.step is not None and run.total_steps is not None:
        parts.append(words("run.step_of", step=f"{run.step:,.0f}", total=f"{run.total_steps:,.0f}"))
    elif run.step is not None:
        parts.append(words("run.step", step=f"{run.step:,.0f}"))
    share = _progress(run)
    if share is not None:
        parts.append(words.written(share, "share"))
    left = _seconds_left(run) if moving else None
    if left is not None:
        parts.append(words("run.left", span=words.span(left)))
    return " · ".join(parts)


def _seconds_left(run: Run) -> float | None:
    if run.state != "running" or run.step is None or run.total_steps is None or not run.step_seconds:
        return None
    return max(0.0, run.total_steps - run.step) * run.step_seconds


def _readings(run: Run, words: Words, make: Readings) -> tuple[Reading, ...]:
    usual = words("run.usual", span=words.span(run.step_seconds)) if run.step_seconds else ""
    patience = max(SHORTEST_WAIT, 20 * (run.step_seconds or 0.0))
    shown = [
        make.of(Quantity("loss", "plain", 0), run.loss, scale=(1.0, 1.0)),
        make.of(Quantity("samples_per_second", "plain", 2), run.samples_per_second, scale=(0.0, 0.0)),
        make.of(Quantity("data_wait_ratio", "share", 1), run.data_wait_ratio, scale=(0.0, 1.0)),
        make.of(Quantity("mfu_ratio", "share", 3), run.mfu_ratio, scale=(0.0, 1.0)),
    ]
    if run.state in GOING_ON:
        shown += [
            make.of(
                Quantity("since_step_seconds", "seconds", 7), run.since_step_seconds, note=usual, scale=(0.0, patience)
            ),
            make.of(Quantity("checkpoint_age_seconds", "seconds"), run.checkpoint_age_seconds),
        ]
    return tuple(reading for reading in shown if reading.value is not None)
