"""Writing a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
from pathlib import Path

from stoker.errors import UserError


def check_place(out: Path) -> None:
    """Refuse what cannot be written, before work is done for it.

    Raises:
        UserError: It is a folder, its folder does not exist, or nothing can be written there.
    """
    _refuse_folder(out)
    if not out.parent.is_dir():
        raise UserError(f"cannot write {out}: there is no folder {out.parent}; make it, or name another place")
    if not os.access(out.parent, os.W_OK):
        raise UserError(f"cannot write {out}: {out.parent} may not be written to; name another place")


def write_aside(out: Path, text: str) -> Path:
    """Write a file under another name beside it, then rename it: a reader never sees half a file.

    Raises:
        UserError: The folder does not exist, or the file cannot be written there.
    """
    _refuse_folder(out)
    aside = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        aside.replace(out)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise UserError(f"cannot write {out}: {error.strerror}; name another place") from error
    return out


def _refuse_folder(out: Path) -> None:
    if out.is_dir():
        raise UserError(f"cannot write {out}: it is a folder; give the name of a file, such as {out / 'report.html'}")
