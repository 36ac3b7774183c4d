"""`stoker monitor top`: GPUs, processes and runs, live in the terminal."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stoker.cli.answer import language_of_environment


def top(
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.5, max=60, help="Seconds between two samples.")
    ] = 2.0,
    demo: Annotated[bool, typer.Option("--demo", help="Show a simulated server: no GPU is needed.")] = False,
    lang: Annotated[
        Literal["en", "zh"] | None, typer.Option("--lang", help="Language; LANG decides if not given.")
    ] = None,
) -> None:
    """Show GPUs, runs and processes live in this terminal, with what is wrong. Works over ssh, from 80 columns.

    Keys: q quits, s sorts by the next column, t changes between light and dark, arrow keys scroll.
    """
    from importlib.util import find_spec

    from stoker.errors import UserError

    if find_spec("textual") is None or find_spec("pynvml") is None:
        raise UserError("`monitor top` needs textual and nvidia-ml-py: pip install 'stoker[monitor]'")
    from stoker.monitor.top.live import watch_the_demo, watch_this_machine

    show = watch_the_demo if demo else watch_this_machine
    show(lang or language_of_environment(), every)
