"""What a run folder says that a diagnosis needs, read without torch and without the engine."""

from __future__ import annotations

import platform
import shutil
import time
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.doctor.runs.process import is_alive
from stoker.report.metrics import STEP_PHASES, StepPhase
from stoker.report.rows import as_amount, as_int, read_mapping, read_rows
from stoker.report.runfolder import Event, Failure, check_run_folder, event_of, read_failure


def _doubles() -> array[float]:
    return array("d")


@dataclass(frozen=True)
class Steps:
    """The rows of `metrics.jsonl` that have a time, as columns; seconds.

    Attributes:
        step: Number of the step.
        line: Number of the line.
        seconds: Wall time of the step.
        phases: Seconds of each phase; 0 where a row does not say.
    """

    step: array[float] = field(default_factory=_doubles)
    line: array[float] = field(default_factory=_doubles)
    seconds: array[float] = field(default_factory=_doubles)
    phases: Mapping[StepPhase, array[float]] = field(default_factory=dict[StepPhase, "array[float]"])

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True)
class RunFacts:
    """A run, as far as its folder and this machine show it.

    Attributes:
        folder: The run folder.
        steps: Times of its steps.
        events: Lines of `events.jsonl`.
        evaluations: Seconds of each evaluation.
        failure: Why it failed, if it wrote so.
        environment: What `environment.json` holds.
        alive: Whether its process exists; None if that cannot be known here.
        silent: Seconds since the folder was last written to; None if nothing was.
        free: Bytes that are free where the folder is.
        checkpoint: Bytes of the newest checkpoint; None without one.
        logs: Log files of its ranks.
        notes: Sentences about what could not be read.
    """

    folder: Path
    steps: Steps = field(default_factory=Steps)
    events: tuple[Event, ...] = ()
    evaluations: tuple[float, ...] = ()
    failure: Failure | None = None
    environment: Mapping[str, object] = field(default_factory=dict[str, object])
    alive: bool | None = None
    silent: float | None = None
    free: int | None = None
    checkpoint: int | None = None
    logs: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """`finished`, `stopped`, `failed`, `running`, `gone` (its process died silently), or `unknown`."""
        last = next((one.event for one in reversed(self.events) if one.event != "checkpoint"), "")
        if self.failure is not None:
            return "failed"
        if last in ("end", "stop"):
            return "finished" if last == "end" else "stopped"
        return {True: "running", False: "gone", None: "unknown"}[self.alive]


def read_facts(folder: Path, *, seen: tuple[bool | None, float | None] | None = None) -> RunFacts:
    """Read a run folder.

    Args:
        folder: The run folder.
        seen: Of a copy of one: whether its process was alive, and how long it was silent, when it was copied.

    Raises:
        UserError: It is no run folder.
    """
    check_run_folder(folder)
    notes: list[str] = []
    note = notes.append
    environment = read_mapping(folder / "environment.json", note)
    return RunFacts(
        folder=folder,
        steps=read_steps(read_rows(folder / "metrics.jsonl", note)),
        events=tuple(event_of(row) for row in read_rows(folder / "events.jsonl", note)),
        evaluations=tuple(
            as_amount(row.get("seconds")) or 0.0 for row in read_rows(folder / "evaluations.jsonl", note)
        ),
        failure=read_failure(folder / "failure.json", note=notes),
        environment=environment,
        alive=seen[0] if seen else _alive(folder, environment),
        silent=seen[1] if seen else _silent(folder, time.time()),
        free=None if seen else _free(folder),
        checkpoint=_checkpoint_bytes(folder / "checkpoints"),
        logs=tuple(sorted(file for file in (folder / "logs").glob("*.log") if file.is_file())),
        notes=tuple(notes),
    )


def read_steps(rows: Iterable[Mapping[str, object]]) -> Steps:
    """Columns of the rows of `metrics.jsonl`."""
    steps = Steps(phases={phase: array("d") for phase in STEP_PHASES})
    for number, row in enumerate(rows, 1):
        seconds = as_amount(row.get("seconds"))
        if seconds is None:
            continue
        steps.step.append(as_int(row.get("step")) or number)
        steps.line.append(number)
        steps.seconds.append(seconds)
        for phase, column in steps.phases.items():
            column.append(as_amount(row.get(phase)) or 0.0)
    return steps


def _alive(folder: Path, environment: Mapping[str, object]) -> bool | None:
    return is_alive(environment, _written(folder / "environment.json") or 0.0, platform.node())


def _written(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def _silent(folder: Path, now: float) -> float | None:
    names = ("metrics.jsonl", "evaluations.jsonl", "events.jsonl", "environment.json")
    times = [written for name in names if (written := _written(folder / name)) is not None]
    return max(0.0, now - max(times)) if times else None


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None


def _checkpoint_bytes(folder: Path) -> int | None:
    newest = max(folder.glob("step-*"), default=None)
    if newest is None:
        return None
    try:
        return sum(file.stat().st_size for file in newest.rglob("*") if file.is_file())
    except OSError:
        return None
