"""The processes of a job on this machine, found from any one of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import UserError

PROC = Path("/proc")
_SAME_JOB = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "SLURM_JOB_ID", "SLURM_STEP_ID")
"""Variables that a launcher gives to all ranks of one job and to no other."""

STATES = {"R": "running", "S": "sleeping", "D": "disk sleep", "T": "stopped", "t": "traced", "Z": "zombie"}


@dataclass(frozen=True)
class Rank:
    """One process of the job.

    Attributes:
        pid: Its number.
        rank: As the launcher numbered it; None if it was given none.
        world_size: Ranks of the whole job; None if unknown.
        environ: Variables it was started with; empty if they cannot be read.
    """

    pid: int
    rank: int | None = None
    world_size: int | None = None
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def name(self) -> str:
        """As it is called in a finding."""
        return f"process {self.pid}" if self.rank is None else f"rank {self.rank} (pid {self.pid})"


def ranks_of(pid: int, proc: Path = PROC) -> list[Rank]:
    """All ranks on this machine of the job that a process belongs to.

    Args:
        pid: A rank, a process that a rank started, or the launcher of ranks.
        proc: Where processes are looked up.

    Raises:
        UserError: There is no such process, or it may not be looked at.
    """
    if not (proc / str(pid)).is_dir():
        raise UserError(f"there is no process {pid} on this machine: `ps aux | grep python` shows those that are")
    try:
        own = environ_of(pid, proc)
    except PermissionError:
        raise UserError(f"process {pid} belongs to somebody else: run this as its user, or with sudo") from None
    if "RANK" not in own:
        started = [rank for child in descendants(pid, proc) if (rank := _rank(child, proc)).rank is not None]
        return _topmost(started, proc) or [Rank(pid, environ=own)]
    job = {name: own.get(name) for name in _SAME_JOB}
    others = [rank for other in _processes(proc) if (rank := _rank(other, proc)).rank is not None]
    return _topmost([one for one in others if {name: one.environ.get(name) for name in _SAME_JOB} == job], proc)


def _rank(pid: int, proc: Path) -> Rank:
    try:
        environ = environ_of(pid, proc)
    except OSError:
        environ = {}
    number, size = environ.get("RANK", ""), environ.get("WORLD_SIZE", "")
    return Rank(pid, int(number) if number.isdigit() else None, int(size) if size.isdigit() else None, environ)


def _topmost(ranks: list[Rank], proc: Path) -> list[Rank]:
    """Without children of ranks, such as data workers, and wrappers such as `timeout`, which have their variables."""
    ranks = [one for one in ranks if _is_python(one.pid, proc)] or ranks
    pids = {one.pid for one in ranks}
    own = [one for one in ranks if parent_of(one.pid, proc) not in pids]
    return sorted(own, key=lambda one: (one.rank or 0, one.pid))


def _is_python(pid: int, proc: Path) -> bool:
    try:
        return "python" in (proc / str(pid) / "exe").readlink().name
    except OSError:
        return False


def environ_of(pid: int, proc: Path = PROC) -> dict[str, str]:
    """The variables that a process was started with.

    Raises:
        OSError: They may not be read.
    """
    content = (proc / str(pid) / "environ").read_bytes().decode("utf-8", "replace")
    return dict(item.split("=", 1) for item in content.split("\0") if "=" in item)


def _processes(proc: Path) -> Iterator[int]:
    return (int(entry.name) for entry in proc.iterdir() if entry.name.isdigit())


def parent_of(pid: int, proc: Path = PROC) -> int | None:
    """The process that started another."""
    return _number(_status(pid, proc).get("PPid", ""))


def descendants(pid: int, proc: Path = PROC) -> list[int]:
    """Children, their children and so on."""
    parents = {one: parent_of(one, proc) for one in _processes(proc)}
    found, new = set[int](), {pid}
    while new:
        new = {one for one, parent in parents.items() if parent in new} - found
        found |= new
    return sorted(found)


def _status(pid: int, proc: Path) -> dict[str, str]:
    try:
        text = (proc / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None


def state_of(pid: int, proc: Path = PROC) -> str:
    """What the scheduler says of it: `running`, `sleeping`, `disk sleep`, `stopped`; `gone` if it is not there."""
    letter = _status(pid, proc).get("State", "")[:1]
    return STATES.get(letter, letter or "gone")


def waits_in(pid: int, proc: Path = PROC) -> str:
    """The function of the kernel it sleeps in; empty if it runs or that may not be read."""
    try:
        name = (proc / str(pid) / "wchan").read_text().strip()
    except OSError:
        return ""
    return "" if name == "0" else name


def cpu_seconds(pid: int, proc: Path = PROC) -> float | None:
    """Processor time it has used so far: fields 14 and 15 of /proc/PID/stat (proc(5))."""
    try:
        fields = (proc / str(pid) / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None
