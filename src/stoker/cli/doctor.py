"""`stoker doctor`: what is wrong, and what mends it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from stoker.cli.answer import Language, language_of_environment, print_json, print_text
from stoker.cli.doctor_collect import collect
from stoker.cli.doctor_examine import examine
from stoker.cli.doctor_hang import hang
from stoker.cli.doctor_machine import ROOT_HELP, Form, examine_machine, snapshot
from stoker.errors import ExitCode, UserError


class ThingOrVerb(TyperGroup):
    """Takes a run folder or a bundle where other words name a command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that the first word names, else `examine`."""
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            return "examine", self.commands["examine"], args
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="doctor",
    cls=ThingOrVerb,
    help="What is wrong with this machine, this run, this log, and what mends it.",
    subcommand_metavar="[RUN_FOLDER|BUNDLE...|COMMAND [ARGS]...]",
)


@app.callback(invoke_without_command=True)
def doctor(
    context: typer.Context,
    root: Annotated[Path | None, typer.Option("--root", metavar="DIR", help=ROOT_HELP)] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only these checks or areas; several times, or with commas."),
    ] = None,
    watch: Annotated[
        float | None, typer.Option("--watch", metavar="SECONDS", help="Look again so often, until interrupted.")
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="For people, for programs, or one page.")] = "text",
) -> None:
    """What is wrong with this machine, this run, this log, and what mends it.

    With nothing else: examines this machine. Nothing is changed, nothing is sent anywhere, root sees more.
    With a run folder: how the run ended and why. With bundles that `collect` wrote: those machines, side by side.
    Exits 0 if no check failed, also where checks warn or could not see, and 1 if one did.
    """
    if context.invoked_subcommand is None:
        raise typer.Exit(examine_machine(root, only or (), form, watch))
    given = {"--root": root, "--only": only, "--watch": watch}
    if mistaken := [name for name, value in given.items() if value is not None]:
        raise UserError(f"{mistaken[0]} is for this machine, and goes with no command, run folder or bundle")
    context.obj = form


app.command(hidden=True)(examine)
app.command()(snapshot)
app.command()(collect)
app.command()(hang)


@app.command()
def log(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE|-", help="The log, plain or compressed; - reads the standard input."),
    ],
    context: Annotated[
        str, typer.Option("--context", help="What the log does not say: `2x RTX 4090, driver 550, docker`.")
    ] = "",
    form: Annotated[Literal["text", "json"], typer.Option("--format", help="For people or for programs.")] = "text",
    lang: Annotated[
        Language | None,
        typer.Option("--lang", help="Language of the answer; LANG decides if not given."),
    ] = None,
) -> None:
    """Find the cause of a failed or slow run in any pasted log, and how to mend it.

    Reads kernel logs, nvidia-smi, NCCL, Python, torchrun, apt, dkms, pip, docker, Slurm, Ray, Kubernetes,
    Prometheus and TensorFlow output, mixed as they come. Nothing is sent anywhere.
    Exits 0 if nothing wrong was found, 1 if something was, 2 if the file cannot be read.
    """
    from stoker.doctor.log import diagnose

    if file == "-" and sys.stdin.isatty():
        typer.echo("Paste the log, then press Ctrl-D on a line of its own.", err=True)
    language = lang or language_of_environment()
    diagnosis = diagnose(file, context=context, language=language)
    if form == "json":
        print_json(diagnosis.to_json())
    else:
        from stoker.doctor.render import render_text

        print_text(render_text(diagnosis, language))
    if diagnosis.findings:
        raise typer.Exit(ExitCode.FAILED)
