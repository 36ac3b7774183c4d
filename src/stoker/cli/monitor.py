"""`stoker monitor`: what the GPUs and the runs do, and who is told when it goes wrong."""

from __future__ import annotations

import typer

from stoker.cli import monitor_stack

app = typer.Typer(
    name="monitor",
    help="What the GPUs and the runs do, and who is told when it goes wrong.",
    no_args_is_help=True,
)
monitor_stack.add_to(app)
