"""`stoker doctor`: what is wrong, and what mends it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from stoker.cli.doctor_machine import ROOT_HELP, Form, examine_machine, snapshot
from stoker.errors import ExitCode

app = typer.Typer(
    name="doctor",
    help="What is wrong with this machine, this run, this log, and what mends it.",
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

    Without a command: examines this machine. Nothing is changed, nothing is sent anywhere, root sees more.
    Exits 0 if no check failed, also where checks warn or could not see, and 1 if one did.
    """
    if context.invoked_subcommand is None:
        raise typer.Exit(examine_machine(root, only or (), form, watch))


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
        Literal["en", "zh"] | None,
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
    language = lang or _language_of_environment()
    diagnosis = diagnose(file, context=context, language=language)
    if form == "json":
        import json

        utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        typer.echo(json.dumps(diagnosis.to_json(), ensure_ascii=not utf8, indent=1))
    else:
        from stoker.doctor.render import render_text

        encoding = sys.stdout.encoding or "utf-8"  # a log may hold what the terminal cannot show
        typer.echo(render_text(diagnosis, language).encode(encoding, "replace").decode(encoding))
    if diagnosis.findings:
        raise typer.Exit(ExitCode.FAILED)


def _language_of_environment() -> Literal["en", "zh"]:
    """As gettext decides: the first of LC_ALL, LC_MESSAGES and LANG that is set."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


app.command()(snapshot)
