"""Processes that are stuck or dead, and what is left of the machine's process and file numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, integer, text_of
from stoker.host.source import Source


@dataclass(frozen=True)
class Process:
    """A process that waits in the kernel (`D`) or is dead and not collected (`Z`)."""

    pid: int
    state: str
    waits_in: str
    seconds: int | None
    name: str


@dataclass(frozen=True)
class Processes:
    """Processes and the numbers they use up.

    Attributes:
        stuck: In state D or Z.
        tasks: Threads of the whole machine; `tasks_max` how many there can be.
        files: Open file handles of the whole machine; `files_max` how many there can be.
    """

    stuck: tuple[Process, ...] = ()
    tasks: int | None = None
    tasks_max: int | None = None
    files: int | None = None
    files_max: int | None = None


def read(source: Source, notes: Notes) -> Processes:
    """Read the section."""
    text = notes.output("stuck", source.run(["ps", "-eo", "pid,stat,wchan:32,etimes,comm"], name="ps"))
    files = text_of(source.read("/proc/sys/fs/file-nr")).split()
    limits = [integer(text_of(source.read(f"/proc/sys/kernel/{name}"))) for name in ("pid_max", "threads-max")]
    known = [limit for limit in limits if limit is not None]
    return Processes(
        parse_ps(text or ""),
        tasks_of(text_of(source.read("/proc/loadavg"))),
        min(known) if known else None,
        integer(files[0]) if files else None,
        integer(files[2]) if len(files) > 2 else None,
    )


def parse_ps(text: str) -> tuple[Process, ...]:
    """Processes in state D or Z in the output of `ps -eo pid,stat,wchan:32,etimes,comm`."""
    found: list[Process] = []
    for line in text.splitlines():
        cells = line.split(None, 4)
        if len(cells) == 5 and cells[0].isdigit() and cells[1][0] in "DZ" and (pid := integer(cells[0])) is not None:
            found.append(Process(pid, cells[1][0], cells[2], integer(cells[3]), cells[4].strip()))
    return tuple(found)


def tasks_of(loadavg: str) -> int | None:
    """Threads of the machine, from /proc/loadavg: `0.00 0.01 0.05 1/123 4567`."""
    match = re.search(r"\s\d+/(\d{1,9})\s", loadavg)
    return int(match[1]) if match else None
