"""What kind of thing the doctor was handed, and its answer to it: `stoker doctor THING...`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from stoker.doctor.runs import diagnose_run
from stoker.errors import UserError
from stoker.report.runfolder import is_run_folder


class Answer(Protocol):
    """What is said about a thing."""

    @property
    def is_wrong(self) -> bool:
        """Whether something wrong was found."""
        ...

    def text(self) -> str:
        """For people."""
        ...

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        ...


def examine(things: Sequence[Path], language: str) -> Answer:
    """Diagnose a run folder.

    Raises:
        UserError: It is not there, or is something else.
    """
    first = things[0]
    if not first.exists():
        raise UserError(
            f"there is no file or folder {first}: give a run folder or a bundle, "
            "or one of the commands that `stoker doctor --help` lists"
        )
    if len(things) == 1 and is_run_folder(first):
        return diagnose_run(first, language=language)
    raise UserError(f"{first} is no run folder")
