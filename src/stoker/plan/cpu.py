"""This machine's CPU in the planner's terms: what it reaches is measured once and kept in a file."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from stoker.errors import RunError
from stoker.host.environment import cpu_name, memory_bytes
from stoker.plan.calibrate import Profile, cpu_as_gpu, read_profile
from stoker.plan.hardware import GIB, Gpu

_TIMED = "operators"
"""What a kept profile has timed; one from before it did is measured again."""

_MEASURE = """
import sys
from pathlib import Path
from stoker.plan.calibrate import measure
measure("cpu").save(Path(sys.argv[1]))
"""


def this_cpu(
    processes: int,
    *,
    profile: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
    proc: Path = Path("/proc"),
) -> Gpu:
    """One process's share of this machine: its cores as measured, and an equal part of the memory.

    Args:
        processes: Processes that share the machine.
        profile: File of `stoker plan calibrate`; by default the one that is kept, or a new measurement.
        say: Is told when something is measured, for it takes some seconds.
        proc: Where `cpuinfo` and `meminfo` are read from.

    Raises:
        UserError: The profile cannot be read.
        RunError: The measurement fails.
    """
    threads = max(1, len(os.sched_getaffinity(0)) // processes)
    name = cpu_name(_text(proc / "cpuinfo")) or "CPU"
    total = memory_bytes(_text(proc / "meminfo")) or 0
    measured = read_profile(profile) if profile is not None else kept_profile(name, threads, say=say)
    share = "" if processes == 1 else f", 1 of {processes} shares"
    return replace(
        cpu_as_gpu(measured),
        name=f"{name} ({threads} {'thread' if threads == 1 else 'threads'}{share})",
        memory_gib=total / processes / GIB,
    )


def kept_profile(
    name: str, threads: int, *, say: Callable[[str], None] = lambda _: None, environ: Mapping[str, str] = os.environ
) -> Profile:
    """The profile of this CPU with so many threads; measured in another process where none is kept yet."""
    torch = metadata.version("torch")
    key = hashlib.sha256(f"{name} {threads} {torch}".encode()).hexdigest()[:16]
    file = cache_folder(environ) / f"cpu-{_TIMED}-{key}.json"
    if not file.exists():
        say(f"timing this CPU with {threads} thread(s), once; kept in {file}")
        file.parent.mkdir(parents=True, exist_ok=True)
        _measure(file, threads, environ)
    return read_profile(file)


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where measurements of this machine are kept (XDG base directory specification)."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stoker"


def _measure(file: Path, threads: int, environ: Mapping[str, str]) -> None:
    """In a process of its own: the number of threads is decided when torch starts."""
    paths = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, str(file)],
        env={**environ, "OMP_NUM_THREADS": str(threads), "PYTHONPATH": paths},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise RunError(f"this CPU cannot be timed: {last[0]}")


def _text(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""
