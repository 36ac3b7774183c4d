"""The run folder: everything that a run leaves behind, and the files other verbs read."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import time
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stoker.errors import RunError


@dataclass(frozen=True)
class RunFolder:
    """Paths of a run folder.

    Attributes:
        root: The folder.
    """

    root: Path

    @property
    def checkpoints(self) -> Path:
        """Checkpoints, one folder each."""
        return self.root / "checkpoints"

    @property
    def model(self) -> Path:
        """The weights at the end of the run."""
        return self.root / "model" / "model.safetensors"

    @property
    def logs(self) -> Path:
        """What ranks other than 0 print."""
        return self.root / "logs"

    @property
    def failure(self) -> Path:
        """Why the run failed."""
        return self.root / "failure.json"

    def create(self) -> None:
        """Make the folder.

        Raises:
            RunError: It cannot be made.
        """
        with disk_errors(self.root):
            self.logs.mkdir(parents=True, exist_ok=True)

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file aside and rename it."""
        self._replace(self.root / name, json.dumps(value, indent=1) + "\n")

    def write_yaml(self, name: str, value: Any) -> None:
        """Write a YAML file aside and rename it."""
        self._replace(self.root / name, yaml.safe_dump(value, sort_keys=False, allow_unicode=True))

    def _replace(self, path: Path, text: str) -> None:
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        with disk_errors(self.root):
            aside.write_text(text, encoding="utf-8")
            aside.replace(path)

    def record_failure(self, error: BaseException, *, rank: int, step: int | None) -> None:
        """Write `failure.json` unless another rank was first: the first failure is the cause.

        Never raises: the error itself must reach the person.
        """
        value = {
            "rank": rank,
            "step": step,
            "kind": type(error).__name__,
            "message": str(error),
            "traceback": "".join(traceback.format_exception(error)),
            "time": time.time(),
        }
        aside = self.root / f".failure.{rank}"
        with contextlib.suppress(OSError):
            aside.write_text(json.dumps(value, indent=1))
            with contextlib.suppress(FileExistsError):
                os.link(aside, self.failure)  # unlike a rename, does not replace what another rank wrote
            aside.unlink()


_ENCODER = json.JSONEncoder(allow_nan=False)


def _line(value: Mapping[str, Any]) -> str:
    """As JSON. It has no word for infinity, which the norm of an overflown gradient may be: that becomes null."""
    try:
        return _ENCODER.encode(value)
    except ValueError:
        return _ENCODER.encode(
            {key: None if isinstance(part, float) and not math.isfinite(part) else part for key, part in value.items()}
        )


class JsonLines:
    """A file with one JSON object per line.

    Lines are gathered and reach the file about once a second, and when `flush` is called.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[str] = []
        self._written = time.monotonic()

    def append(self, value: Mapping[str, Any]) -> None:
        """Add a line."""
        self._lines.append(_line(value))
        if time.monotonic() - self._written > 1.0:
            self.flush()

    def flush(self) -> None:
        """Write what was gathered.

        Raises:
            RunError: The disk is full or gone.
        """
        self._written = time.monotonic()
        if self._lines:
            with disk_errors(self._path.parent), self._path.open("a", encoding="utf-8") as stream:
                stream.write("\n".join(self._lines) + "\n")
            self._lines.clear()

    def keep(self, wanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drop lines, and a half written one at the end; written aside and renamed."""
        if not self._path.exists():
            return
        aside = self._path.with_suffix(".kept")
        with disk_errors(self._path.parent), self._path.open(encoding="utf-8") as old, aside.open("w") as new:
            new.writelines(line for line in old if (value := parsed(line)) is not None and wanted(value))
        aside.replace(self._path)


def parsed(line: str) -> dict[str, Any] | None:
    """A line's object; None for one that was cut short."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) and line.endswith("\n") else None


@contextlib.contextmanager
def disk_errors(folder: Path) -> Generator[None]:
    """Turn an OSError into a sentence.

    Raises:
        RunError: In its place.
    """
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise RunError(f"the disk that holds {folder} is full: free some space and start the run again") from error
        raise RunError(f"{folder} cannot be written: {error.strerror or error}") from error
