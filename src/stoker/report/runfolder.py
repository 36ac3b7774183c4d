"""Reads a run folder into a RunRecord: tolerant of what a killed run leaves, bounded for runs of any length.

| File | Holds |
|---|---|
| `spec.yaml` | the resolved RunSpec |
| `environment.json` | versions, devices, command |
| `metrics.jsonl` | one row per step |
| `evaluations.jsonl` | one row per evaluation |
| `events.jsonl` | start, resume, checkpoint, memory, stop, end |
| `plan.json` | what was predicted, if it was planned |
| `failure.json` | why it failed, if it did |
| `checkpoints/`, `model/`, `logs/` | what can be resumed, served and read |

Any of them may be missing, empty or end in a half-written line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import Mistake, UserError
from stoker.finding import Evidence, Finding, State
from stoker.report.metrics import Evaluations, Metrics, read_evaluations, read_metrics
from stoker.report.rows import (
    as_amount,
    as_float,
    as_int,
    as_list,
    as_mapping,
    as_text,
    read_mapping,
    read_rows,
)

MARKS = (
    "spec.yaml",
    "environment.json",
    "metrics.jsonl",
    "evaluations.jsonl",
    "events.jsonl",
    "failure.json",
)
"""A folder with one of these is a run folder."""

_CHECKPOINT = re.compile(r"step-(\d+)$")


@dataclass(frozen=True)
class Event:
    """One line of `events.jsonl`; `time` in unix seconds, `kind` and `peak_bytes` of memory."""

    event: str
    time: float | None = None
    step: int | None = None
    seconds: float | None = None
    message: str = ""
    kind: str = ""
    peak_bytes: float | None = None


@dataclass(frozen=True)
class Failure:
    """Why the run failed: `failure.json`."""

    kind: str = ""
    message: str = ""
    traceback: str = ""
    rank: int | None = None
    step: int | None = None
    time: float | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class RunRecord:
    """All that a report needs to know of one run.

    Attributes:
        path: The run folder, absolute.
        plan: What the planner predicted; empty if it was not asked.
        notes: Sentences about what could not be read.
        checkpoints: Steps that have a checkpoint, rising.
        logs: Names of the log files, relative to the run folder.
    """

    path: Path
    spec: Mapping[str, object] = field(default_factory=dict[str, object])
    environment: Mapping[str, object] = field(default_factory=dict[str, object])
    metrics: Metrics = field(default_factory=Metrics)
    evaluations: Evaluations = field(default_factory=Evaluations)
    events: tuple[Event, ...] = ()
    failure: Failure | None = None
    checkpoints: tuple[int, ...] = ()
    has_model: bool = False
    logs: tuple[str, ...] = ()
    plan: Mapping[str, object] = field(default_factory=dict[str, object])
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return as_text(self.path.name) or "run"


def read_run(path: Path) -> RunRecord:
    """Read a run folder.

    Raises:
        UserError: The path does not exist, is a file, or is no run folder.
    """
    check_run_folder(path)
    notes: list[str] = []
    note = notes.append
    return RunRecord(
        path=Path(os.path.abspath(path)),  # noqa: PTH100 - a link keeps the name that the user gave it
        spec=read_mapping(path / "spec.yaml", note, parse=_parse_yaml),
        environment=read_mapping(path / "environment.json", note),
        metrics=read_metrics(read_rows(path / "metrics.jsonl", note)),
        evaluations=read_evaluations(read_rows(path / "evaluations.jsonl", note)),
        events=tuple(event_of(row) for row in read_rows(path / "events.jsonl", note)),
        failure=read_failure(path / "failure.json", note=notes),
        checkpoints=_checkpoints(path / "checkpoints"),
        has_model=(path / "model" / "model.safetensors").is_file(),
        logs=tuple(sorted(f"logs/{as_text(log.name)}" for log in (path / "logs").glob("*") if log.is_file())),
        plan=read_mapping(path / "plan.json", note) if (path / "plan.json").is_file() else {},
        notes=tuple(notes),
    )


def read_runs(paths: Sequence[Path]) -> list[RunRecord]:
    """Read several run folders.

    Raises:
        UserError: One or several of them are no run folders; all are named.
    """
    mistakes: list[Mistake] = []
    for path in paths:
        try:
            check_run_folder(path)
        except UserError as error:
            mistakes += error.mistakes
    if mistakes:
        raise UserError(*mistakes)
    return [read_run(path) for path in paths]


def check_run_folder(path: Path) -> None:
    """Raise a UserError that says what to give instead, unless `path` is a run folder."""
    if is_run_folder(path):
        return
    if not path.exists():
        raise UserError(f"there is no run folder {path}: give the folder that `stoker train` wrote")
    if not path.is_dir():
        hint = f"give its folder, {path.parent}" if is_run_folder(path.parent) else "give the run's folder"
        raise UserError(f"{path} is a file, not a run folder: {hint}")
    try:
        inside = sorted(str(child) for child in path.iterdir() if child.is_dir() and is_run_folder(child))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; check its permissions") from error
    if inside:
        more = f" and {len(inside) - 5} more" if len(inside) > 5 else ""
        raise UserError(f"{path} is no run folder but holds some: give one of {', '.join(inside[:5])}{more}")
    for parent in path.absolute().parents[:2]:
        if is_run_folder(parent):
            raise UserError(f"{path} is a part of a run: give the run's folder, {parent}")
    raise UserError(f"{path} is no run folder: it holds none of {', '.join(MARKS)}; give what `stoker train` wrote")


def is_run_folder(path: Path) -> bool:
    """Whether a folder holds any of the files that a run writes."""
    try:
        return any((path / name).is_file() for name in MARKS)
    except OSError:
        return False


def event_of(row: Mapping[str, object]) -> Event:
    """One line of `events.jsonl`."""
    return Event(
        event=as_text(row.get("event")) or "event",
        time=as_amount(row.get("time")),
        step=as_int(row.get("step")),
        seconds=as_amount(row.get("seconds")),
        message=as_text(row.get("message")),
        kind=as_text(row.get("kind")),
        peak_bytes=as_amount(row.get("peak_bytes")),
    )


def read_failure(path: Path, note: list[str]) -> Failure | None:
    """The failure; an empty one where the file is there but unreadable, for the run did fail."""
    if not path.is_file():
        return None
    raw = read_mapping(path, note.append)
    return Failure(
        kind=as_text(raw.get("kind")),
        message=as_text(raw.get("message")),
        traceback=as_text(raw.get("traceback")),
        rank=as_int(raw.get("rank")),
        step=as_int(raw.get("step")),
        time=as_amount(raw.get("time")),
        findings=tuple(_finding(as_mapping(item)) for item in as_list(raw.get("findings"))),
    )


_STATES: dict[str, State] = {"ok": "ok", "info": "info", "warn": "warn", "fail": "fail"}


def _finding(raw: Mapping[str, object]) -> Finding:
    evidence = [as_mapping(item) for item in as_list(raw.get("evidence"))]
    confidence = as_float(raw.get("confidence"))
    return Finding(
        state=_STATES.get(as_text(raw.get("state")), "unknown"),
        cause=as_text(raw.get("cause")),
        title=as_text(raw.get("title")),
        confidence=1.0 if confidence is None else confidence,
        evidence=tuple(
            Evidence(as_text(item.get("text")), as_int(item.get("line")), as_text(item.get("source")))
            for item in evidence
        ),
        meaning=as_text(raw.get("meaning")),
        fix=tuple(as_text(step) for step in as_list(raw.get("fix"))),
        confirm=as_text(raw.get("confirm")),
        collect=tuple(as_text(item) for item in as_list(raw.get("collect"))),
        source=as_text(raw.get("source")),
        area=as_text(raw.get("area")),
    )


def _checkpoints(folder: Path) -> tuple[int, ...]:
    found = (_CHECKPOINT.match(child.name) for child in folder.glob("step-*"))
    return tuple(sorted(int(match[1]) for match in found if match))


def _parse_yaml(text: str) -> object:
    import yaml  # not needed to look at a run's failure

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
