"""`stoker doctor` without a command, and `stoker doctor snapshot`: this machine, or a copy of one."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stoker.errors import ExitCode, UserError

if TYPE_CHECKING:
    from stoker.host.source import Source

Form = Literal["text", "json", "html"]

ROOT_HELP = "Read a copied or recorded tree in place of this machine."


def source_of(root: Path | None) -> Source:
    """This machine, or the tree at `root`."""
    if root is None:
        from stoker.host.live import Live

        return Live()
    from stoker.host.tree import Tree

    return Tree(root)


def examine_machine(root: Path | None, only: Sequence[str], form: Form, watch: float | None) -> ExitCode:
    """Read, judge and print; again every `watch` seconds until interrupted."""
    from stoker.doctor.checks.run import select

    names = [name for word in only for name in word.split(",") if name]
    select(names)  # a wrong name is told before anything is read
    if watch is not None and (form == "html" or watch <= 0):
        raise UserError("--watch takes seconds above 0, and goes with text and json only")
    while True:
        code = _once(source_of(root), names, form, clear=watch is not None and sys.stdout.isatty())
        if watch is None:
            return code
        try:
            time.sleep(watch)
        except KeyboardInterrupt:
            return code


def _once(source: Source, names: Sequence[str], form: Form, *, clear: bool) -> ExitCode:
    from stoker.doctor.checks.run import examine
    from stoker.host.snapshot import read_snapshot

    examination = examine(read_snapshot(source), names)
    if form == "json":
        import json

        typer.echo(json.dumps(examination.to_json(), indent=1))
    elif form == "html":
        from stoker.doctor.checks.show import render_html

        typer.echo(render_html(examination), nl=False)
    else:
        from stoker.doctor.checks.show import render_text

        encoding = sys.stdout.encoding or "utf-8"
        text = render_text(examination, colour=sys.stdout.isatty())
        typer.echo(("\x1b[2J\x1b[H" if clear else "") + text.encode(encoding, "replace").decode(encoding))
    return ExitCode.FAILED if examination.of("fail") else ExitCode.OK


def snapshot(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it there, not to the output.")
    ] = None,
    root: Annotated[Path | None, typer.Option("--root", metavar="DIR", help=ROOT_HELP)] = None,
) -> None:
    """Write all that is read of this machine as JSON, with the reason for each thing that is unknown.

    It names the host, its addresses and its hardware: look through it before you pass it on.
    """
    from stoker.host.snapshot import read_snapshot

    text = read_snapshot(source_of(root)).to_json()
    if out is None:
        typer.echo(text, nl=False)
        return
    from stoker.report.write import write_aside

    typer.echo(str(write_aside(out, text)))
