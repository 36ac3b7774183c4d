"""The simulated machine in the place of the real one."""

from __future__ import annotations

import time
from collections.abc import Callable

from stoker.monitor.demo.player import Player
from stoker.monitor.demo.scenario import read_scenario
from stoker.monitor.history import SPAN, STEP
from stoker.monitor.model import MachineSample
from stoker.monitor.watch import Watch


class DemoMachine:
    """Plays the scenario that comes with stoker from the moment it is made.

    Args:
        clock: Seconds of a clock that does not jump.
        begin: Unix time at which the scenario begins; by default now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, begin: float | None = None) -> None:
        self._clock = clock
        self._zero = clock()
        self._player = Player(read_scenario(), begin=time.time() if begin is None else begin)

    def sample(self) -> MachineSample:
        """The machine now."""
        return self._player.sample(self._clock() - self._zero)

    def watched(self) -> Watch:
        """A watch that has followed it for an hour, so that there is something to see at once."""
        watch = Watch()
        for slot in range(-round(SPAN / STEP), 1):
            watch.take(self._player.sample(slot * STEP), self._zero + slot * STEP)
        return watch
