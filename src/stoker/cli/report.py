"""`stoker report`: what a run amounts to, or what tells several runs apart."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from stoker.report.runfolder import RunRecord


class Format(StrEnum):
    """How a report is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, as `stoker train` wrote them.")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            help="text for people, json for programs, html for one page that opens offline.",
        ),
    ] = Format.TEXT,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Where to write. By default text and json are printed, html goes to report.html in the run"
            " folder, or to comparison.html here for several runs.",
        ),
    ] = None,
) -> None:
    """Show what a run amounts to, or compare several: state, curves, throughput, where the time went."""
    if form is Format.HTML:
        from stoker.report.html import write_comparison, write_report

        typer.echo(f"wrote {write_report(runs[0], out) if len(runs) == 1 else write_comparison(runs, out)}")
        return
    from stoker.report.runfolder import read_runs

    records = read_runs(runs)
    if out is not None:
        from stoker.report.write import write_aside

        typer.echo(f"wrote {write_aside(out, _as_text(records, form))}")
    elif form is Format.JSON:
        typer.echo(_as_text(records, form), nl=False)
    else:
        from rich.console import Console

        _print(records, Console())


def _as_text(records: Sequence[RunRecord], form: Format) -> str:
    if form is Format.JSON:
        from stoker.report.machine import report_json

        return report_json(records) + "\n"
    from io import StringIO

    from rich.console import Console

    file = StringIO()
    _print(records, Console(file=file, width=100, color_system=None))
    return file.getvalue()


def _print(records: Sequence[RunRecord], console: Console) -> None:
    from stoker.report.terminal import print_comparison, print_report

    if len(records) == 1:
        print_report(records[0], console)
    else:
        print_comparison(records, console)
