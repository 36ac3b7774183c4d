"""Whose a process is: its name, user, container, Slurm job, and the stoker run it belongs to."""

from __future__ import annotations

import contextlib
import pwd
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from stoker.monitor.model import GpuProcess

PROC = Path("/proc")
_CONTAINER = re.compile(r"[0-9a-f]{64}")
"""Docker, containerd, CRI-O and Podman all name a container's control group after its id."""
_SLURM_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
"""Slurm's cgroup plugins name it so: slurm/uid_N/job_N (v1), slurmstepd.scope/job_N (v2)."""


def describe(pid: int, memory_bytes: float | None) -> GpuProcess:
    """What /proc says of a process; a field that it does not say, as in another pid namespace, stays empty."""
    folder = PROC / str(pid)
    container, job = placed_in(_text(folder / "cgroup"))
    return GpuProcess(
        pid=pid,
        process=_text(folder / "comm").strip(),
        user=_owner(folder),
        memory_bytes=None if memory_bytes is None else float(memory_bytes),
        container=container,
        slurm_job=job,
    )


def placed_in(cgroup: str) -> tuple[str, str]:
    """Container and Slurm job by the text of a process's /proc/PID/cgroup; empty where it is in none.

    >>> placed_in("0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0")
    ('', '42')
    """
    container, job = _CONTAINER.search(cgroup), _SLURM_JOB.search(cgroup)
    return container[0][:12] if container else "", job[1] if job else ""


def run_of(pid: int, folders: Mapping[int, str]) -> str:
    """Folder of the run whose process, or launcher, the process is or descends from; empty if there is none.

    Args:
        pid: The process.
        folders: Run folders by the pid of rank 0 and of the launcher.
    """
    seen: set[int] = set()
    while pid > 1 and pid not in seen:
        if pid in folders:
            return folders[pid]
        seen.add(pid)
        pid = parent_of(pid)
    return ""


def parent_of(pid: int) -> int:
    """0 if there is none, or no such process."""
    rest = _text(PROC / str(pid) / "stat").rpartition(")")[2].split()
    return int(rest[1]) if len(rest) > 1 else 0


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """The user's name, or number where it has no name here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _owner(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return user_name(folder.stat().st_uid)
    return ""


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
