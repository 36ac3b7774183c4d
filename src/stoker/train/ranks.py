"""Which rank this process is, as the launcher that started it says. No torch: the command line asks too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from stoker.errors import UserError


@dataclass(frozen=True)
class Ranks:
    """A process's place among those of a run.

    Attributes:
        rank: Number among all processes, from 0.
        world_size: Processes of the run.
        local_rank: Number among those of this machine.
        local_size: Processes on this machine.
        master_address: Host of rank 0.
        master_port: Port on it where the processes meet.
    """

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    local_size: int = 1
    master_address: str = "127.0.0.1"
    master_port: int = 29500


def read_ranks(environ: Mapping[str, str]) -> Ranks | None:
    """What torchrun or srun put into the environment; None if neither started this process.

    Raises:
        UserError: The variables are there but not numbers.
    """
    try:
        if "RANK" in environ and "WORLD_SIZE" in environ:
            return _from_torchrun(environ)
        if "SLURM_PROCID" in environ and int(environ.get("SLURM_STEP_NUM_TASKS", "1")) > 1:
            return _from_slurm(environ)
    except ValueError as error:
        raise UserError(f"the launcher's environment variables cannot be read: {error}") from None
    return None


def _from_torchrun(environ: Mapping[str, str]) -> Ranks:
    world_size = int(environ["WORLD_SIZE"])
    return Ranks(
        rank=int(environ["RANK"]),
        world_size=world_size,
        local_rank=int(environ.get("LOCAL_RANK", environ["RANK"])),
        local_size=int(environ.get("LOCAL_WORLD_SIZE", world_size)),
        master_address=environ.get("MASTER_ADDR", "127.0.0.1"),
        master_port=int(environ.get("MASTER_PORT", "29500")),
    )


def _from_slurm(environ: Mapping[str, str]) -> Ranks:
    """A job step of srun; variables as documented in srun(1), OUTPUT ENVIRONMENT VARIABLES."""
    local_id = int(environ.get("SLURM_LOCALID", "0"))
    per_node = _tasks_per_node(environ.get("SLURM_STEP_TASKS_PER_NODE", "1"))
    job = int(environ.get("SLURM_JOB_ID", "0"))
    return Ranks(
        rank=int(environ["SLURM_PROCID"]),
        world_size=int(environ["SLURM_STEP_NUM_TASKS"]),
        local_rank=local_id,
        local_size=per_node[min(int(environ.get("SLURM_NODEID", "0")), len(per_node) - 1)],
        master_address=environ.get("MASTER_ADDR") or first_host(environ.get("SLURM_STEP_NODELIST", "127.0.0.1")),
        master_port=int(environ.get("MASTER_PORT") or 20000 + job % 20000),
    )


def _tasks_per_node(text: str) -> list[int]:
    """`4(x2),3` means nodes with 4, 4 and 3 tasks."""
    counts: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if match is None:
            raise ValueError(f"SLURM_STEP_TASKS_PER_NODE={text!r}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def first_host(nodelist: str) -> str:
    """The first host of a Slurm node list.

    >>> first_host("gpu[003-006,010],login1")
    'gpu003'
    """
    match = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodelist)  # up to the first comma that is not in brackets
    return "" if match is None else re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", match[0])
