"""`stoker plan`: what to buy and how to run on it."""

from __future__ import annotations

import typer

from stoker.cli import plan_memory

app = typer.Typer(help="Will it fit, how fast, on what.", no_args_is_help=True)
app.command("memory")(plan_memory.memory)
app.command("speed")(plan_memory.speed)
app.command("calibrate")(plan_memory.calibrate)
