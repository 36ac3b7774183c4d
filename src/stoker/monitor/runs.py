"""The stoker runs of this machine: which there are, and whether their processes still live."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.monitor.model import Run
from stoker.monitor.processes import PROC, user_name
from stoker.run_status import ENDED, RunStatus, boot_id, process_identity, read_status

SHOWN_AFTER_END = 3600.0
"""Seconds for which a run is shown after its end, so that its end is not missed."""
MOST_RUNS = 200
KILLED = "run-killed"
_KILLED_TITLE = (
    "the run's process is gone without a word: it was killed from outside, such as by the kernel when memory ran out, "
    "by the batch system, or by a person"
)


@dataclass(frozen=True)
class SeenRun:
    """A run's status, and what the machine says of its process.

    Attributes:
        status: What the run wrote.
        pid: Of rank 0 in this process's namespace; None if it is gone.
        user: Owner of the status file.
        failure: What failure.json holds of it: `kind` and `message`; empty without one.
    """

    status: RunStatus
    pid: int | None
    user: str
    failure: Mapping[str, str]


class RunFinder:
    """Looks through the registries.

    Attributes:
        unreadable: Entries that could not be read the last time.
    """

    def __init__(self, registries: Sequence[Path]) -> None:
        self._registries = registries
        self._boot_id = boot_id()
        self._gone: set[tuple[int, int]] = set()
        self._places: dict[tuple[int, int], int] = {}
        self.unreadable = 0

    def find(self) -> list[SeenRun]:
        """Runs that go on or ended lately; of several entries of a folder the one that was written last."""
        newest: dict[str, SeenRun] = {}
        unreadable = 0
        for entry in self._entries():
            try:
                status, owner = read_status(entry), entry.stat().st_uid
            except (OSError, ValueError):
                unreadable += 1
                continue
            if time.time() - _last_sign(status) > SHOWN_AFTER_END and self._pid_of(status) is None:
                continue
            before = newest.get(status.folder)
            if before is None or before.status.written_time < status.written_time:
                newest[status.folder] = self._seen(status, user_name(owner))
        self.unreadable = unreadable
        return sorted(newest.values(), key=lambda seen: seen.status.folder)

    def _entries(self) -> list[Path]:
        found: list[tuple[float, Path]] = []
        for registry in self._registries:
            try:
                found += [(entry.lstat().st_mtime, entry) for entry in registry.glob("[!.]*.json")]
            except OSError:
                continue
        return [entry for _, entry in sorted(found, reverse=True)[:MOST_RUNS]]

    def _seen(self, status: RunStatus, user: str) -> SeenRun:
        pid = None if status.state in ENDED else self._pid_of(status)
        failure = _failure(Path(status.folder)) if pid is None and status.state not in ENDED else {}
        return SeenRun(status, pid, user, failure)

    def _pid_of(self, status: RunStatus) -> int | None:
        """The process's number here: in a container it knows itself by another one."""
        key = status.pid, status.pid_start
        if key in self._gone:
            return None
        place = self._places.get(key)
        if place is not None and _is(place, status.pid_start):
            return place
        place = self._looked_for(status) if status.boot_id == self._boot_id else None
        if place is None:
            self._gone.add(key)
        else:
            self._places[key] = place
        return place

    @staticmethod
    def _looked_for(status: RunStatus) -> int | None:
        if _is(status.pid, status.pid_start):
            return status.pid
        numbers = (int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit())
        return next((pid for pid in numbers if _inner_pid(pid) == status.pid and _is(pid, status.pid_start)), None)


def launchers_of(runs: Iterable[SeenRun]) -> dict[int, str]:
    """Run folders by pid: of rank 0, and of the launcher where it started others beside it.

    The launcher's pid only says something in this process's own namespace.
    """
    folders: dict[int, str] = {}
    for seen in runs:
        if seen.pid is None:
            continue
        folders[seen.pid] = seen.status.folder
        if seen.status.launcher not in (None, 0, 1) and seen.pid == seen.status.pid:
            folders[seen.status.launcher] = seen.status.folder
    return folders


def as_run(seen: SeenRun, gpus: tuple[str, ...], clock: float) -> Run:
    """A run as it is shown at `clock`, the steady clock's seconds."""
    status = seen.status
    ended = seen.pid is None
    state, finding, title = status.state, status.finding, status.finding_title
    ended_time = status.ended_time
    if ended and state not in ENDED:
        state, finding, title = "killed", KILLED, _KILLED_TITLE
        ended_time = status.written_time
        if seen.failure:
            state, finding = "failed", f"exception-{seen.failure['kind']}"
            title = seen.failure["message"]
    return Run(
        run=Path(status.folder).name,
        folder=status.folder,
        state=state,
        task=status.task,
        user=seen.user,
        pid=seen.pid,
        gpus=gpus,
        world_size=status.world_size,
        strategy=status.strategy,
        precision=status.precision,
        slurm_job=status.slurm_job,
        activity="" if ended else status.activity,
        started_time=status.started_time,
        ended_time=ended_time,
        step=status.step,
        total_steps=status.total_steps,
        epoch=status.epoch,
        progress_ratio=status.progress_ratio,
        loss=status.loss,
        samples=status.samples,
        samples_per_second=None if ended else status.samples_per_second,
        step_seconds=status.step_seconds,
        data_wait_ratio=status.data_wait_ratio,
        mfu_ratio=None if ended else status.mfu_ratio,
        micro_batch_size=status.micro_batch_size,
        since_step_seconds=None if ended else max(0.0, clock - status.step_clock),
        checkpoint_age_seconds=(
            None if ended or status.checkpoint_clock is None else max(0.0, clock - status.checkpoint_clock)
        ),
        finding=finding,
        finding_title=title,
    )


def _last_sign(status: RunStatus) -> float:
    return max(status.written_time, status.ended_time or 0.0)


def _is(pid: int, start: int) -> bool:
    identity = process_identity(pid)
    return identity is not None and identity.start == start


def _inner_pid(pid: int) -> int:
    """The number by which a process knows itself: the last of NSpid in /proc/PID/status."""
    try:
        text = (PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[-1]) for line in text.splitlines() if line.startswith("NSpid:")), 0)


def _failure(folder: Path) -> dict[str, str]:
    try:
        value: Any = json.loads((folder / "failure.json").read_text(encoding="utf-8"))
        return {"kind": str(value["kind"]), "message": str(value["message"]).partition("\n")[0]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
