"""Where the Python code of a process stands, as py-spy sees it from outside."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECONDS = 20.0
"""How long py-spy may take for one process."""

_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|lib/python3[\d.]*)/|^<|(?:^|/)(?:torch|threading\.py)(?:/|$)"
)
_COMMUNICATION = re.compile(r"(?:^|/)torch/distributed/(?!elastic/|launcher/|run\.py|launch)")
_BACKWARD = re.compile(r"(?:^|/)torch/autograd/")
_WRAPPERS = ("wrapper", "_exception_logger.<locals>.wrapper", "decorate_context", "_fn", "inner")


@dataclass(frozen=True)
class Frame:
    """One call: the function and the line where it stands."""

    function: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.function} ({self.file.rpartition('/')[2]}:{self.line})"


@dataclass(frozen=True)
class Stack:
    """The main thread's calls, the innermost first."""

    frames: tuple[Frame, ...]

    @property
    def own(self) -> Frame | None:
        """The innermost call of the user's own code."""
        return next((frame for frame in self.frames if not _LIBRARY.search(frame.file)), None)

    @property
    def waits_in(self) -> str:
        """The collective it is inside of; `backward` where DDP's reductions run; empty if it stands elsewhere."""
        inner = self.frames[: self.frames.index(self.own)] if self.own else self.frames
        calls = [one.function for one in inner if _COMMUNICATION.search(one.file) and one.function not in _WRAPPERS]
        if calls:
            return calls[-1]  # the outermost is what the user called
        return "backward" if any(_BACKWARD.search(frame.file) for frame in inner[:2]) else ""

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        if not self.frames:
            return "no Python code"
        if self.own is None:
            return str(self.frames[0])
        if self.waits_in:
            return f"{self.waits_in}, called from {self.own}"
        return str(self.own) if self.frames[0] == self.own else f"{self.own}, in {self.frames[0]}"


def find_py_spy() -> str | None:
    """The program, on PATH or beside this Python."""
    beside = Path(sys.executable).parent / "py-spy"
    return shutil.which("py-spy") or (str(beside) if beside.is_file() else None)


def read_stack(pid: int, program: str) -> Stack | str:
    """The stack of a process, or a sentence why there is none."""
    command = [program, "dump", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"py-spy did not answer within {SECONDS:.0f} s"
    except OSError as error:
        return f"py-spy cannot be run: {error.strerror}"
    if done.returncode:
        return refusal(done.stderr.decode("utf-8", "replace"))
    try:
        return main_thread(json.loads(done.stdout))
    except (ValueError, TypeError, KeyError):
        return "py-spy answered in a form that is not known: stoker expects that of 0.4"


def refusal(errors: str) -> str:
    """Why py-spy said no, in one sentence."""
    if re.search(r"[Pp]ermission [Dd]enied|Operation not permitted|EPERM", errors):
        return "the kernel lets nobody look into it: run this with sudo, in a container with --cap-add SYS_PTRACE"
    first = next((line.strip() for line in errors.splitlines() if line.strip()), "no reason given")
    return f"py-spy: {first}"


def main_thread(threads: Sequence[Mapping[str, Any]]) -> Stack:
    """The main thread's stack of what `py-spy dump --json` prints; the first thread's if none has that name."""
    chosen = next((one for one in threads if one["thread_name"] == "MainThread"), threads[0] if threads else None)
    if chosen is None:
        return Stack(())
    return Stack(tuple(Frame(str(one["name"]), str(one["filename"]), int(one["line"])) for one in chosen["frames"]))
