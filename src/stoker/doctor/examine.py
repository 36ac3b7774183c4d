"""What kind of thing the doctor was handed, and its answer to it: `stoker doctor THING...`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from stoker.doctor.bundle.unpack import is_archive
from stoker.doctor.runs import diagnose_run
from stoker.errors import UserError
from stoker.report.runfolder import check_run_folder, is_run_folder


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
    """Diagnose a run folder or a bundle, or compare bundles.

    Raises:
        UserError: One is not there, or is something else; all such are named.
    """
    mistakes = [mistake for thing in things if (mistake := _mistake(thing, alone=len(things) == 1))]
    if mistakes:
        raise UserError(*mistakes)
    first = things[0]
    if first.is_dir():
        return diagnose_run(first, language=language)
    from stoker.doctor.bundle.diagnose import compare_bundles, diagnose_bundle  # with all checks, which takes a while

    return diagnose_bundle(first, language) if len(things) == 1 else compare_bundles(things, language)


def _mistake(thing: Path, *, alone: bool) -> str:
    """What is wrong with a thing, and what to give instead; empty if it can be diagnosed."""
    if not thing.exists():
        return (
            f"there is no file or folder {thing}: give a run folder or a bundle, "
            "or one of the commands that `stoker doctor --help` lists"
        )
    if thing.is_dir():
        if not alone:
            return f"{thing} is a folder: one run folder at a time, or several bundles of `stoker doctor collect`"
        if (thing / ".stoker").is_dir():
            return f"{thing} is a recorded machine: stoker doctor --root {thing}"
        return "" if is_run_folder(thing) else _no_run(thing)
    if not is_archive(thing):
        return f"{thing} is no bundle of `stoker doctor collect`; if it is a log: stoker doctor log {thing}"
    return ""


def _no_run(folder: Path) -> str:
    """Say which run folders are near."""
    try:
        check_run_folder(folder)
    except UserError as error:
        return str(error)
    return ""
