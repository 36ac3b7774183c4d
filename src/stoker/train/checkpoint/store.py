"""Checkpoint folders on disk: written aside, checked, committed by a rename, and found again.

    checkpoints/
        step-00000120/
            state/          tensors, as torch.distributed.checkpoint writes them
            progress.json   step, position in the data, loss scale, spec
            manifest.json   size and SHA-256 of every other file; written last: the commit marker
        .step-00000140.partial/   a save that is under way, or was cut short

A folder counts only if its name has no dot in front and its manifest agrees with its files.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from stoker.errors import RunError

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{8,})")


@dataclass(frozen=True)
class FileRecord:
    """A file of a checkpoint: path relative to its folder, bytes, and SHA-256 in hex."""

    path: str
    size: int
    sha256: str

    @classmethod
    def of(cls, file: Path, folder: Path) -> FileRecord:
        """Read a file and sum it up."""
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return cls(str(file.relative_to(folder)), file.stat().st_size, digest)


@dataclass(frozen=True)
class CheckpointStore:
    """The `checkpoints` folder of a run."""

    root: Path

    def partial(self, step: int) -> Path:
        """Where a checkpoint is written aside."""
        return self.root / f".step-{step:08d}.partial"

    def final(self, step: int) -> Path:
        """Where it stands once it is complete."""
        return self.root / f"step-{step:08d}"

    def start(self, step: int) -> Path:
        """An empty folder to write into."""
        folder = self.partial(step)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def commit(self, step: int, records: list[FileRecord]) -> Path:
        """Make a written checkpoint count: manifest, then rename; both reach the disk before this returns."""
        folder, final = self.partial(step), self.final(step)
        manifest = {
            "step": step,
            "files": [vars(record) for record in sorted(records, key=lambda one: one.path)],
        }
        write_durably(folder / MANIFEST, json.dumps(manifest, indent=1))
        for part in [folder / "state", folder]:
            _sync_folder(part)
        if final.exists():  # this step was saved before: an older run of the same folder, or a second signal
            self._discard(final)
        folder.rename(final)
        _sync_folder(self.root)
        return final

    def complete(self) -> list[Path]:
        """Committed checkpoints, newest first; their files are not read."""
        if not self.root.is_dir():
            return []
        found = [folder for folder in self.root.iterdir() if _NAME.fullmatch(folder.name)]
        return sorted((folder for folder in found if (folder / MANIFEST).is_file()), key=step_of, reverse=True)

    def newest_valid(self) -> tuple[Path | None, list[str]]:
        """The newest checkpoint whose files agree with its manifest, and what is wrong with newer ones."""
        problems: list[str] = []
        for folder in self.complete():
            problem = problem_of(folder)
            if problem is None:
                return folder, problems
            problems.append(f"{folder}: {problem}")
        return None, problems

    def clean(self) -> None:
        """Remove what interrupted saves left behind."""
        if self.root.is_dir():
            for folder in self.root.glob(".step-*"):
                shutil.rmtree(folder, ignore_errors=True)

    def keep_newest(self, count: int) -> None:
        """Delete older checkpoints."""
        for folder in self.complete()[count:]:
            self._discard(folder)

    def _discard(self, folder: Path) -> None:
        """Delete so that a half deleted folder never looks like a checkpoint."""
        hidden = folder.with_name(f".{folder.name}.deleted")
        shutil.rmtree(hidden, ignore_errors=True)
        folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def step_of(folder: Path) -> int:
    """The step in a checkpoint folder's name."""
    match = _NAME.fullmatch(folder.name)
    if match is None:
        raise RunError(f"not a checkpoint folder: {folder}; its name must be like step-00000120")
    return int(match[1])


def problem_of(folder: Path) -> str | None:
    """Why a committed folder cannot be used; None if all its files are as they were written."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
        records = [FileRecord(**record) for record in manifest["files"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its manifest cannot be read: {error}"
    for record in records:
        file = folder / record.path
        if not file.is_file():
            return f"{record.path} is missing"
        if file.stat().st_size != record.size:
            return f"{record.path} has {file.stat().st_size} bytes instead of {record.size}"
        if FileRecord.of(file, folder) != record:
            return f"{record.path} has changed since it was written"
    return None


def write_durably(path: Path, text: str) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
