"""One process per device on this machine, through torch's elastic launcher.

torch's launcher is used in this process and not as a program of its own: one process less, and the failures
of ranks arrive as data instead of text. It is all of torch that this room may know.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import FrameType
from typing import Any

from stoker.errors import ExitCode

FORWARDED = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


@dataclass(frozen=True)
class RankFailure:
    """A rank that ended with an error.

    Attributes:
        rank: Which.
        exit_code: What it ended with; negative: the signal that ended it.
        time: Unix seconds.
    """

    rank: int
    exit_code: int
    time: float


def torchrun_line(command: Sequence[str], processes: int) -> str:
    """The torchrun command that a launch stands for, as a shell reads it."""
    return f"torchrun --standalone --nproc-per-node {processes} -m {shlex.join(command)}"


def threads_per_process(cores: int, processes: int, environ: Mapping[str, str]) -> str:
    """OMP_NUM_THREADS for each process: an equal share of the cores unless the user has decided."""
    return environ.get("OMP_NUM_THREADS") or str(max(1, cores // processes))


def launch(command: Sequence[str], processes: int) -> tuple[ExitCode, list[RankFailure]]:
    """Run `python -m command` in several processes and wait for all of them.

    A SIGTERM, SIGUSR1 or interrupt is passed on to the processes, which stop by themselves; a second
    interrupt kills them (`ExitCode.INTERRUPTED`).

    Args:
        command: Module and arguments.
        processes: How many.

    Returns:
        How the run ended, and the ranks that failed, first one first.
    """
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # the failure is told once, by us
    os.environ["OMP_NUM_THREADS"] = threads_per_process(len(os.sched_getaffinity(0)), processes, os.environ)
    wanted: dict[str, Any] = {
        "min_nodes": 1,
        "max_nodes": 1,
        "nproc_per_node": processes,
        "rdzv_backend": "c10d",
        "rdzv_endpoint": "127.0.0.1:0",
        "local_addr": "127.0.0.1",
        "run_id": f"stoker{os.getpid()}",
        "max_restarts": 0,
        "signals_to_handle": "SIGQUIT",  # the others are ours: the ranks must be left alone to save
    }
    known = {field.name for field in fields(LaunchConfig)}
    wanted = {name: value for name, value in wanted.items() if name in known}
    # torch would leave the folder through which the ranks report their errors to it behind
    with tempfile.TemporaryDirectory(prefix="stoker-launch-") as folder, _signals_forwarded() as interrupts:
        config = LaunchConfig(**wanted, logs_specs=DefaultLogsSpecs(log_dir=folder))
        try:
            elastic_launch(config, sys.executable)("-m", *command)
        except ChildFailedError as error:
            return (ExitCode.INTERRUPTED, []) if len(interrupts) > 1 else _outcome(error.failures)
    return ExitCode.OK, []


def _outcome(failures: Mapping[int, Any]) -> tuple[ExitCode, list[RankFailure]]:
    """Exit code for the whole run from what the ranks ended with."""
    found = sorted(
        (RankFailure(rank, failure.exitcode, failure.timestamp) for rank, failure in failures.items()),
        key=lambda one: one.time,
    )
    codes = {failure.exit_code for failure in found}
    if ExitCode.STOPPED in codes and codes <= {ExitCode.STOPPED, -signal.SIGTERM}:
        return ExitCode.STOPPED, []
    if ExitCode.USAGE in codes:
        return ExitCode.USAGE, found
    return ExitCode.FAILED, found


@contextlib.contextmanager
def _signals_forwarded() -> Generator[list[int]]:
    """Pass signals on to the processes; yields the interrupts that came."""
    interrupts: list[int] = []

    def forward(number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT:
            interrupts.append(number)
        passed_on = signal.SIGKILL if len(interrupts) > 1 else signal.SIGTERM if number == signal.SIGINT else number
        for child in child_processes(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, passed_on)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def child_processes(process: int, proc: Path = Path("/proc")) -> list[int]:
    """Direct children of a process, of all its threads."""
    children: list[int] = []
    for file in (proc / str(process) / "task").glob("*/children"):
        with contextlib.suppress(OSError):
            children += [int(word) for word in file.read_text().split()]
    return children
