"""`stoker doctor collect`: this machine in one masked file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.cli.answer import print_text


def collect(
    run: Annotated[
        Path | None, typer.Option("--run", help="A run folder to take along: its text, not its weights.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="The file to write; a name with the time if not given.")
    ] = None,
) -> None:
    """Put all that a diagnosis needs of this machine into one masked file.

    Reads only, needs no root (which sees more), and sends nothing anywhere. Names of hosts and users, addresses,
    serial numbers and secrets become pseudonyms; what was masked is counted.
    """
    from stoker.doctor.bundle.collect import collect as collected
    from stoker.doctor.bundle.collect import default_name
    from stoker.host.live import Live

    print_text(collected(Live(), out or default_name(), run).text())
