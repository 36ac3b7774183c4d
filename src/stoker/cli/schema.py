"""`stoker schema`: the formats of stoker's files."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer


def schema(
    what: Annotated[Literal["run"], typer.Argument(help="Which format: `run`, the run file.")],
    form: Annotated[
        Literal["json", "markdown"], typer.Option("--format", help="JSON schema, or the reference page.")
    ] = "json",
) -> None:
    """Print the JSON schema of a file format, for editors and checks."""
    del what  # there is one format so far; typer has checked the word
    from stoker.train.spec.document import json_schema, reference_page

    typer.echo(json.dumps(json_schema(), indent=2) if form == "json" else reference_page())
