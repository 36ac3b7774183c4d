"""The source that is this machine: plain reads, and commands with a time limit."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from stoker.host.source import COMMAND_SECONDS, READ_LIMIT, Kind, Output, Unreadable
from stoker.host.variables import matters


class Live:
    """This machine."""

    def read(self, path: str, *, tail: bool = False) -> str | Unreadable:
        """See `Source.read`."""
        return read_regular(Path(path), tail=tail)

    def names(self, path: str) -> tuple[str, ...] | Unreadable:
        """See `Source.names`."""
        return list_folder(Path(path))

    def link(self, path: str) -> str | Unreadable:
        """See `Source.link`."""
        return read_link(Path(path))

    def can_open(self, path: str) -> Literal[True] | Unreadable:
        """See `Source.can_open`."""
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            return unreadable(error)
        return True

    def environment(self) -> Mapping[str, str] | Unreadable:
        """See `Source.environment`."""
        return {name: value for name, value in sorted(os.environ.items()) if matters(name)}

    def taken(self) -> str:
        """Now."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    def run(
        self, argv: Sequence[str], *, timeout: float = COMMAND_SECONDS, name: str = "", script: str = ""
    ) -> Output | Unreadable:
        """See `Source.run`. Runs with LC_ALL=C, and with the folders of system tools on PATH."""
        del name  # only a recording needs it
        environ = os.environ | {"LC_ALL": "C", "LANGUAGE": "", "PATH": _search_path()}
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environ,
                start_new_session=True,
            )
        except FileNotFoundError:
            return Unreadable("missing", f"{argv[0]} is not installed")
        except OSError as error:
            return unreadable(error)
        try:
            out, err = process.communicate(script.encode(), timeout=timeout)
        except subprocess.TimeoutExpired:
            _abandon(process)
            return Unreadable("timeout", f"{argv[0]} did not answer within {timeout:g} s")
        return Output(_decode(out[:READ_LIMIT]), _decode(err[:READ_LIMIT]), process.returncode)


def _search_path() -> str:
    return os.pathsep.join(filter(None, [os.environ.get("PATH", ""), "/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"]))


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill a command with its children, but do not wait: one that hangs inside a driver cannot be killed."""
    try:
        os.killpg(process.pid, 9)
        process.wait(timeout=0.1)
    except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
        pass
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def unreadable(error: OSError) -> Unreadable:
    """An operating-system error as a reason."""
    kind: Kind = "failed"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        kind = "missing"
    elif isinstance(error, PermissionError):
        kind = "denied"
    return Unreadable(kind, (error.strerror or type(error).__name__).lower())


def read_regular(path: Path, *, tail: bool = False) -> str | Unreadable:
    """The text of a regular file: a pipe or a device would block or have effects."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return unreadable(error)
    except ValueError:  # a null byte in the path
        return Unreadable("missing", "no such file or directory")
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return Unreadable("failed", "not a regular file")
        if tail and found.st_size > READ_LIMIT:
            os.lseek(descriptor, found.st_size - READ_LIMIT, os.SEEK_SET)
        return _decode(_read_all(descriptor))
    except OSError as error:
        return unreadable(error)
    finally:
        os.close(descriptor)


def _read_all(descriptor: int) -> bytes:
    """Files of /proc have no size and come in pieces."""
    pieces: list[bytes] = []
    left = READ_LIMIT
    while left > 0 and (piece := os.read(descriptor, min(left, 1 << 16))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def list_folder(path: Path) -> tuple[str, ...] | Unreadable:
    """The names in a folder, sorted."""
    try:
        return tuple(sorted(entry.name for entry in path.iterdir()))
    except OSError as error:
        return unreadable(error)


def read_link(path: Path) -> str | Unreadable:
    """What a symbolic link says."""
    try:
        return str(path.readlink())
    except OSError as error:
        return unreadable(error)
