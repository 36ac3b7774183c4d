"""Where a machine is read from.

A probe asks a `Source` and never knows which: `stoker.host.live.Live` is this machine, `stoker.host.tree.Tree` a
copied tree of any machine, and `stoker.host.recording.Recording` makes such a tree of whatever is asked through it.
A tree is a folder with the files below their own paths (`proc/modules`, `etc/os-release`) and, in `.stoker/`, what
is no file:

| File | Holds |
|---|---|
| `.stoker/commands/<name>.txt` | what a command printed; `<name>.err` what it printed as errors |
| `.stoker/index.json` | an `Index`: time, exit codes, links, listings, variables, and what could not be read |

Both are optional: a folder made with `cp -r` is a tree too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

Kind = Literal["missing", "denied", "timeout", "failed", "unrecorded"]

READ_LIMIT = 8 << 20
"""Bytes kept of one file or of one command's output."""
COMMAND_SECONDS = 5.0
"""How long a command may take that says nothing else."""


@dataclass(frozen=True)
class Unreadable:
    """Why something could not be read.

    Attributes:
        kind: `missing` is knowledge (the machine has no such file or command); the others are none.
        reason: The same in words that end a sentence: `permission denied`.
    """

    kind: Kind
    reason: str


@dataclass(frozen=True)
class Output:
    """What a command printed, and its exit code."""

    text: str
    errors: str = ""
    code: int = 0


class Source(Protocol):
    """A machine that can be asked. Paths are absolute; nothing here raises for what the machine is like."""

    def read(self, path: str, *, tail: bool = False) -> str | Unreadable:
        """The text of a regular file: its first `READ_LIMIT` bytes, or its last with `tail`."""
        ...

    def names(self, path: str) -> tuple[str, ...] | Unreadable:
        """The names in a folder, sorted."""
        ...

    def link(self, path: str) -> str | Unreadable:
        """What a symbolic link says, as it stands there."""
        ...

    def can_open(self, path: str) -> Literal[True] | Unreadable:
        """Whether a device node can be opened for reading: device cgroups forbid it whatever the mode says."""
        ...

    def environment(self) -> Mapping[str, str] | Unreadable:
        """The variables of this process that matter to a run; no others, as they can hold secrets."""
        ...

    def taken(self) -> str:
        """When the machine was (or is) read, ISO 8601 with zone; empty if that was not written down."""
        ...

    def run(
        self, argv: Sequence[str], *, timeout: float = COMMAND_SECONDS, name: str = "", script: str = ""
    ) -> Output | Unreadable:
        """What a command prints.

        Args:
            argv: The command and its arguments; it must only read.
            timeout: Seconds after which it is killed and counts as unreadable.
            name: Under which it is recorded; made from `argv` if empty.
            script: Its standard input.
        """
        ...


def command_name(argv: Sequence[str]) -> str:
    """The name under which a command's output is recorded, if it is given no other.

    >>> command_name(["/usr/bin/nvidia-smi", "topo", "-p2p", "r"])
    'nvidia-smi_topo_-p2p_r'
    """
    words = [argv[0].rpartition("/")[2], *argv[1:]]
    return "_".join(re.sub(r"[^A-Za-z0-9.,=+-]", "-", word) for word in words)[:150]
