"""Keeps a Watch up to date from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import chain, repeat

from stoker.monitor.model import MachineSample
from stoker.monitor.watch import Watch

EVERY = 5.0
"""Seconds between two samples: as often as the driver is asked."""


FIRST = (0.5, 0.5, 1.0, 2.0)
"""The driver is still being asked when the first sample is taken: the next ones follow sooner."""


class Feed:
    """Takes a sample now and then, from `start` to `stop`.

    Args:
        sample: Says what is known of the machine now; must not wait for anything.
        watch: What takes the samples in.
        every: Seconds between two samples.
        clock: Seconds of a clock that does not jump.
    """

    def __init__(
        self,
        sample: Callable[[], MachineSample],
        watch: Watch,
        *,
        every: float = EVERY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sample = sample
        self._watch = watch
        self._every = every
        self._clock = clock
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go, name="stoker-monitor-feed", daemon=True)

    def start(self) -> None:
        """Take the first sample, and go on."""
        self._take()
        self._thread.start()

    def stop(self) -> None:
        """Take no more."""
        self._ended.set()
        self._thread.join()

    def _go(self) -> None:
        for wait in chain(FIRST, repeat(self._every)):
            if self._ended.wait(min(wait, self._every)):
                return
            self._take()

    def _take(self) -> None:
        self._watch.take(self._sample(), self._clock())
