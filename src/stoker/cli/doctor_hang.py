"""`stoker doctor hang`: asks a live job why it does not go on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from stoker.cli.answer import Language, language_of_environment, print_json, print_text
from stoker.errors import ExitCode, UserError


def hang(
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="Any process of the job: a rank or its launcher.")
    ] = None,
    run: Annotated[Path | None, typer.Option("--run", help="The run folder, instead of a process.")] = None,
    form: Annotated[Literal["text", "json"], typer.Option("--format", help="For people or for programs.")] = "text",
    lang: Annotated[
        Language | None, typer.Option("--lang", help="Language of the answer; LANG decides if not given.")
    ] = None,
) -> None:
    """Ask a job that hangs which rank is missing, and where it stands.

    Asks NCCL RAS, reads dumps of PyTorch's flight recorder, and looks at stacks with py-spy, as far as each is
    there; says what is not. Needs the rights of the job's user, on some machines of root.
    Exits 0 if no rank is missing, 1 if one is, 2 if the job cannot be looked at.
    """
    from stoker.doctor.hang.ask import ask, process_of_run

    if (pid is None) == (run is None):
        raise UserError("name the job: --pid PID (a rank or the launcher), or --run RUN_FOLDER")
    answer = ask(pid if pid is not None else process_of_run(run or Path()), lang or language_of_environment())
    if form == "json":
        print_json(answer.to_json())
    else:
        print_text(answer.text())
    if answer.is_wrong:
        raise typer.Exit(ExitCode.FAILED)
