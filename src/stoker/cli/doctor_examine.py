"""`stoker doctor THING`: what is wrong with a run, or with the machines of bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stoker.cli.answer import Language, language_of_environment, print_json, print_text
from stoker.errors import ExitCode, UserError


def examine(
    context: typer.Context,
    things: Annotated[list[Path], typer.Argument(help="A run folder, or one or several bundles.", show_default=False)],
    form: Annotated[
        Literal["text", "json"] | None,
        typer.Option("--format", help="For people or for programs.", show_default="text"),
    ] = None,
    lang: Annotated[
        Language | None, typer.Option("--lang", help="Language of the answer; LANG decides if not given.")
    ] = None,
) -> None:
    """Find what is wrong with a run, from its folder, or with machines, from their bundles.

    Exits 0 if nothing wrong was found, 1 if something was, 2 if it cannot be read.
    """
    from stoker.doctor.examine import examine as examined

    chosen = form or context.obj or "text"  # it may stand before the thing as well
    if chosen == "html":
        raise UserError("--format html is for this machine; a run has a report.html: write text or json")
    answer = examined(things, lang or language_of_environment())
    if chosen == "json":
        print_json(answer.to_json())
    else:
        print_text(answer.text())
    if answer.is_wrong:
        raise typer.Exit(ExitCode.FAILED)
