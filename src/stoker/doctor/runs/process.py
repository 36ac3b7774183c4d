"""Whether the process of a run is still there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from stoker.report.rows import as_int, as_text


def is_alive(environment: Mapping[str, object], written: float, host: str, proc: Path = Path("/proc")) -> bool | None:
    """Whether the first rank of a run still exists.

    Args:
        environment: What `environment.json` holds.
        written: When that file was written, in unix seconds: a process that is younger only has the same number.
        host: The name of this machine; of a run on another one nothing can be said.
        proc: Where processes are looked up.

    Returns:
        None if it cannot be known here.
    """
    process = as_int(environment.get("pid"))
    if process is None or as_text(environment.get("host")) != host:
        return None
    started = start_time(process, proc)
    return started is not None and started <= written + 1


def start_time(process: int, proc: Path = Path("/proc")) -> float | None:
    """When a process began, in unix seconds; None if it is gone or a zombie.

    Field 22 of /proc/PID/stat counts clock ticks since the boot, whose time is `btime` of /proc/stat (proc(5)).
    """
    try:
        state, *fields = (proc / str(process) / "stat").read_text().rpartition(")")[2].split()
        boot = next(line for line in (proc / "stat").read_text().splitlines() if line.startswith("btime"))
        if state in "ZX":
            return None
        return int(boot.split()[1]) + int(fields[18]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, StopIteration):
        return None
