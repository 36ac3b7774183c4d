"""`stoker monitor demo`: what the monitor shows, without a GPU."""

from __future__ import annotations

from typing import Annotated

import typer


def demo(
    listen: Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")] = "127.0.0.1:9836",
) -> None:
    """Show page and metrics of a simulated server: 8 GPUs, two runs, of which one hangs, and a GPU that is slowed down.

    Needs no GPU and no driver. Everything it shows says that it is simulated. For the same in the terminal:
    stoker monitor top --demo.
    """
    from stoker.monitor.demo.serve import serve_demo

    serve_demo(listen)
