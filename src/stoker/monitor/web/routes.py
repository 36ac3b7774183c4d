"""What can be asked for: a table from path to a function that answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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


def make_routes(machine: Watched, metrics: Route, page: Route | None = None) -> dict[str, Route]:
    """The routes of `stoker monitor serve`.

    Args:
        machine: What is watched.
        metrics: Answers `/metrics` for Prometheus.
        page: Answers `/` for people; without it a line says what else there is.
    """
    return {
        "/": page or _index,
        "/metrics": metrics,
        "/sample.json": lambda _: Response(
            json.dumps(to_json(machine.sample())).encode(), "application/json; charset=utf-8"
        ),
        "/-/healthy": lambda _: Response(b"stoker monitor is alive\n"),
    }


def _index(request: Request) -> Response:
    del request
    return Response(b"stoker monitor: /metrics for Prometheus, /sample.json for programs, /-/healthy\n")
