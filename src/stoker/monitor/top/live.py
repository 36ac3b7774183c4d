"""Starts the live view on this machine, or on the simulated one."""

from __future__ import annotations

import os
from collections.abc import Callable

from stoker.monitor.demo.machine import DemoMachine
from stoker.monitor.feed import Feed
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.machine import Machine
from stoker.monitor.model import MachineSample
from stoker.monitor.serve import SIMULATION
from stoker.monitor.top.app import TopApp
from stoker.monitor.view import Screen, screen_of
from stoker.monitor.view.words import Language, words_of
from stoker.monitor.watch import Watch
from stoker.run_status import registries


def watch_this_machine(language: Language, every: float) -> None:
    """Show this machine until the reader quits.

    Args:
        language: Of the texts.
        every: Seconds between two samples.
    """
    machine = Machine(Intervals(fast=every, slow=max(every, 10.0)), registries(), simulated=SIMULATION in os.environ)
    machine.start()
    try:
        _show(Watch(), machine.sample, language, every)
    finally:
        machine.stop()


def watch_the_demo(language: Language, every: float) -> None:
    """Show the simulated machine until the reader quits."""
    machine = DemoMachine()
    _show(machine.watched(), machine.sample, language, every)


def _show(watch: Watch, sample: Callable[[], MachineSample], language: Language, every: float) -> None:
    words = words_of(language)
    feed = Feed(sample, watch, every=every)

    def look() -> Screen | None:
        with watch.lock:
            return screen_of(watch.moment, words) if watch.moment else None

    feed.start()
    try:
        TopApp(look, words, refresh=every).run()
    finally:
        feed.stop()
