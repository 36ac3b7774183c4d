"""The `stoker` command: its verbs, and how errors reach the person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stoker._version import __version__
from stoker.cli import doctor, monitor
from stoker.cli.answer import show_mistakes
from stoker.cli.facts import facts
from stoker.cli.plan import plan
from stoker.cli.report import report
from stoker.cli.schema import schema
from stoker.cli.train import TrainCommand, train
from stoker.errors import UserError

app = typer.Typer(
    name="stoker",
    help="From bare GPU server to trained PyTorch model, and the servers kept busy.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(doctor.app)
app.add_typer(monitor.app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"stoker {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del version  # handled by its callback, before any verb runs


app.command(cls=TrainCommand)(train)
app.command()(schema)
app.command(name="report")(report)
app.command()(facts)
app.add_typer(plan, name="plan")


def main() -> None:
    """Run the command line; turn a user's mistake into sentences and an exit code."""
    try:
        app()
    except UserError as error:
        show_mistakes(error)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
