"""A bar for what takes long."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Generator


@contextlib.contextmanager
def progress() -> Generator[Callable[[str, int, int], None]]:
    """Yields what to tell what is done, how many of it, and of how many. A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _what, _done, _all: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        number = bar.add_task("", total=1)
        yield lambda what, done, total: bar.update(number, description=what, completed=done, total=total)
