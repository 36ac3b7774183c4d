"""Which observers a run has."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from stoker.train.observe.base import Observer, Observers
from stoker.train.observe.files import FileObserver
from stoker.train.observe.status import RunFacts, StatusObserver
from stoker.train.observe.terminal import BarObserver, LineObserver
from stoker.train.spec.model import ObserveSection
from stoker.train.world import World


def make_observers(section: ObserveSection, root: Path, world: World, facts: RunFacts) -> Observers:
    """Observers for rank 0; none for the others."""
    if not world.is_first:
        return Observers()
    found: list[Observer] = [FileObserver(root), StatusObserver(root, facts)]
    if section.tensorboard:
        from stoker.train.observe.tensorboard import TensorBoardObserver

        found.append(TensorBoardObserver(root))
    console = Console(soft_wrap=True)
    if section.progress == "bar" or (section.progress == "auto" and console.is_terminal):
        found.append(BarObserver(console))
    elif section.progress != "none":
        found.append(LineObserver(console, section.lines_every))
    return Observers(found)
