"""status.json: how the run stands, for `stoker monitor`."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from stoker.errors import RunError
from stoker.run_status import (
    ENDED,
    RunState,
    RunStatus,
    boot_id,
    process_identity,
    registry_for_writing,
    registry_name,
    write_status,
)
from stoker.train.evaluate import EvaluationResult
from stoker.train.observe.base import Observer, StepRecord

SPACING = 1.0
"""Seconds between two writes."""
_WINDOW = 50  # steps that the rates are taken over
_KEPT_SECONDS = 24 * 3600.0  # how long what is said of an ended run stays in the registry


@dataclass(frozen=True)
class RunFacts:
    """What is decided before the first step."""

    task: str
    world_size: int
    strategy: str
    precision: str
    micro_batch_size: int | None
    total_steps: int | None
    checkpoints: bool


class StatusObserver(Observer):
    """Writes how the run stands to its folder and to the machine's registry, once a second.

    A thread of its own writes: a step costs the append of its record, however slow the disk is, and the status
    goes on telling that the process lives while a step hangs.
    """

    def __init__(self, root: Path, facts: RunFacts) -> None:
        folder = root.absolute()
        self._places = [folder / "status.json"]
        registry = registry_for_writing()
        if registry is not None:
            self._places.append(registry / registry_name(str(folder)))
            _clear_old(registry)
        self._records: deque[StepRecord] = deque(maxlen=_WINDOW)
        self._samples, self._fraction, self._step_clock = 0, 0.0, time.monotonic()
        self._status = _first_status(str(folder), facts, self._step_clock)
        self._seconds_at_peak = planned_seconds_at_peak(folder / "plan.json", facts.world_size)
        self._ended = threading.Event()
        self._writer: threading.Thread | None = None
        self._write()

    def start(self, step: int, fraction: float) -> None:
        """The loop begins; the clocks of step and checkpoint begin with it."""
        self._fraction, self._step_clock = fraction, time.monotonic()
        checkpoint = None if self._status.checkpoint_clock is None else self._step_clock
        self._status = replace(
            self._status, state="running", step=step, activity="train", checkpoint_clock=checkpoint
        )  # fmt: skip
        self._write()

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """Keep the record; the thread does the rest."""
        self._records.append(record)
        self._samples += record.samples
        self._fraction, self._step_clock = fraction, time.monotonic()
        if self._writer is None:  # not before the first step: data workers are forked before it
            self._writer = threading.Thread(target=self._write_on, name="run status", daemon=True)
            self._writer.start()

    def on_activity(self, activity: str) -> None:
        """Something other than a step may take its time."""
        self._status = replace(self._status, activity=activity)

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """Back to training; the time of an evaluation is no time without a step."""
        del step, epoch, result
        self._step_clock = time.monotonic()
        self._status = replace(self._status, activity="train")

    def on_event(self, event: str, step: int, **details: object) -> None:
        """A checkpoint, or the end."""
        del step, details
        now = time.monotonic()
        if event == "checkpoint":
            self._step_clock = now
            self._status = replace(self._status, checkpoint_clock=now, activity="train")
        elif event in ("end", "stop"):
            self._end("finished" if event == "end" else "stopped")

    def close(self) -> None:
        """The last word. The error that ends a run is on its way through here."""
        self._ended.set()
        if self._writer is not None:
            self._writer.join()
        error = sys.exception()
        if error is not None and self._status.state not in ENDED:
            self._end("failed", error)
        self._write()

    def _end(self, state: RunState, error: BaseException | None = None) -> None:
        self._status = replace(
            self._status,
            state=state,
            activity="",
            ended_time=time.time(),
            finding="" if error is None else cause_of(error),
            finding_title="" if error is None else next(iter(str(error).splitlines()), type(error).__name__),
        )

    def _write_on(self) -> None:
        while not self._ended.wait(SPACING):
            self._write()

    def _write(self) -> None:
        status = _with_records(self._status, list(self._records), self._seconds_at_peak)
        status = replace(
            status,
            samples=self._samples,
            progress_ratio=self._fraction,
            step_clock=self._step_clock,
            written_time=time.time(),
            written_clock=time.monotonic(),
        )
        write_status(status, self._places)


def cause_of(error: BaseException) -> str:
    """Identifier of what ended a run, as in docs/reference/causes where it stands there."""
    if isinstance(error, torch.OutOfMemoryError):
        return "cuda-oom-model-too-big"
    if isinstance(error, RunError):
        return error.cause
    return f"exception-{type(error).__name__}"


def _first_status(folder: str, facts: RunFacts, now: float) -> RunStatus:
    own = process_identity(os.getpid())
    return RunStatus(
        folder=folder,
        state="starting",
        pid=os.getpid(),
        pid_start=0 if own is None else own.start,
        boot_id=boot_id(),
        launcher=os.getppid() if facts.world_size > 1 else None,
        hostname=socket.gethostname(),
        task=facts.task,
        world_size=facts.world_size,
        strategy=facts.strategy,
        precision=facts.precision,
        micro_batch_size=facts.micro_batch_size,
        total_steps=facts.total_steps,
        slurm_job=os.environ.get("SLURM_JOB_ID", ""),
        started_time=time.time(),
        checkpoint_clock=now if facts.checkpoints else None,
    )


def planned_seconds_at_peak(plan: Path, world_size: int) -> float | None:
    """Seconds that the arithmetic of a step takes at the peak of the card, from the plan of this very run.

    None without a plan (`stoker train --plan` makes it), on a CPU, and where the plan is for another number of ranks.
    """
    try:
        value: Any = json.loads(plan.read_text(encoding="utf-8"))
        seconds = value["speed"]["seconds_at_peak"] if value["processes"] == world_size else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return float(seconds) if isinstance(seconds, int | float) and seconds > 0 else None


def _with_records(status: RunStatus, records: list[StepRecord], seconds_at_peak: float | None) -> RunStatus:
    """The last step, and rates over the last ones."""
    if not records:
        return status
    last = records[-1]
    seconds = sum(record.seconds for record in records)
    return replace(
        status,
        step=last.step,
        epoch=last.epoch,
        loss=last.loss,
        step_seconds=seconds / len(records),
        samples_per_second=sum(record.samples for record in records) / seconds if seconds else None,
        mfu_ratio=seconds_at_peak * len(records) / seconds if seconds_at_peak and seconds else None,
        data_wait_ratio=sum(record.phases.get("data", 0.0) for record in records) / seconds if seconds else None,
    )


def _clear_old(registry: Path) -> None:
    """Remove one's own entries of runs that have not written for a day."""
    with contextlib.suppress(OSError):
        for entry in registry.glob("*.json"):
            about = entry.stat()
            if about.st_uid == os.getuid() and time.time() - about.st_mtime > _KEPT_SECONDS:
                entry.unlink(missing_ok=True)
