"""What can be asked for: a table from path to a function that answers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stoker.monitor.exposition import CONTENT_TYPE, Exposition
from stoker.monitor.model import MachineSample, to_json


@dataclass(frozen=True)
class Request:
    """What was asked.

    Attributes:
        path: Without the query.
        query: What follows the question mark, as it was sent.
        headers: By their names in small letters.
    """

    path: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Response:
    """What is answered."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


Route = Callable[[Request], Response]


class Watched(Protocol):
    """A machine, or what plays one."""

    def sample(self) -> MachineSample:
        """All that is known now."""
        ...


def make_routes(machine: Watched, page: Route | None = None, metrics: Route | None = None) -> dict[str, Route]:
    """The routes of `stoker monitor serve`.

    Args:
        machine: What is watched.
        page: Answers `/` for people; without it a line says what else there is.
        metrics: Answers `/metrics`; without it a `Metrics` of the machine.
    """
    return {
        "/": page or _index,
        "/metrics": metrics or Metrics(machine),
        "/sample.json": lambda _: Response(
            json.dumps(to_json(machine.sample())).encode(), "application/json; charset=utf-8"
        ),
        "/-/healthy": lambda _: Response(b"stoker monitor is alive\n"),
    }


def _index(request: Request) -> Response:
    del request
    return Response(b"stoker monitor: /metrics for Prometheus, /sample.json for programs, /-/healthy\n")


class Metrics:
    """Answers /metrics, and tells with each answer how long the one before took.

    Args:
        machine: What is watched.
    """

    def __init__(self, machine: Watched) -> None:
        self._machine = machine
        self._exposition = Exposition()
        self._last = 0.0
        self.prepare()  # the first one reads the table: that is not for a scrape to wait for

    def prepare(self) -> None:
        """Render what is new, so that the next scrape need not."""
        self._exposition.prepare(self._machine.sample())

    def __call__(self, request: Request) -> Response:
        """All series."""
        del request
        began = time.perf_counter()
        body = self._exposition.render(self._machine.sample(), self._last)
        self._last = time.perf_counter() - began
        return Response(body, CONTENT_TYPE)
