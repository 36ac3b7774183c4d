"""Answers for Prometheus, made before it asks: a scrape only puts them together."""

from __future__ import annotations

import threading
import time

from stoker.monitor.exposition import CONTENT_TYPE, Exposition
from stoker.monitor.web.routes import Request, Response, Watched

TOGETHER = 0.02
"""Seconds after a first piece of news in which more follows: the GPUs of a machine are read at about the same time."""


class MetricsRoute:
    """Answers `/metrics`, and tells with each answer how long the one before took.

    Args:
        machine: What is watched.
    """

    def __init__(self, machine: Watched) -> None:
        self._machine = machine
        self._exposition = Exposition()
        self._last = 0.0
        self._render()  # the first one reads the table: that is not for a scrape to wait for

    def __call__(self, request: Request) -> Response:
        """All that is known now."""
        del request
        began = time.perf_counter()
        body = self._render()
        self._last = time.perf_counter() - began
        return Response(body, CONTENT_TYPE)

    def keep_ready(self, news: threading.Event) -> None:
        """Render in a thread of its own what is new, as soon as it is, for ever.

        Args:
            news: Set when there is something new.
        """
        threading.Thread(target=self._keep_ready, args=(news,), name="metrics", daemon=True).start()

    def _keep_ready(self, news: threading.Event) -> None:
        while news.wait():
            time.sleep(TOGETHER)
            news.clear()  # before the look: what comes during it is news again
            self._render()

    def _render(self) -> bytes:
        return self._exposition.render(self._machine.sample(), self._last)
