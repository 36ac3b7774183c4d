"""The `stoker` command: its verbs, and how errors reach the person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from stoker._version import __version__
from stoker.cli import plan
from stoker.errors import ExitCode, UserError

app = typer.Typer(
    name="stoker",
    help="From bare GPU server to trained PyTorch model, and the servers kept busy.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


app.add_typer(plan.app, name="plan")


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


def main() -> None:
    """Run the command line; turn a user's mistake into sentences and an exit code."""
    try:
        app()
    except UserError as error:
        for mistake in error.mistakes:
            typer.secho(f"error: {mistake}", fg="red", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(ExitCode.OK)  # the reader of our output, such as `head`, has seen enough


if __name__ == "__main__":
    main()
