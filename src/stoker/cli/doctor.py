"""`stoker doctor`: what is wrong, and what mends it."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import typer

from stoker.errors import ExitCode

app = typer.Typer(
    name="doctor",
    help="What is wrong with this machine, this run, this log, and what mends it.",
    no_args_is_help=True,
)


@app.callback()
def _doctor() -> None:
    """Keep `log` a command of its own even while it is the only one."""


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
