"""Servers whose power is documented."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from stoker.errors import UserError
from stoker.facts.drivers import Confidence
from stoker.facts.reader import load


@dataclass(frozen=True)
class Server:
    """A server: a row of servers.csv.

    Attributes:
        gpu: The model in gpus.csv, of which it holds `gpus`.
        max_power_w: What it draws at most, W.
        supplies: Its power supplies, of `supply_w` each; it runs on `supplies_needed` of them. None if not
            known.
        input: The voltage it is built for.
    """

    server: str
    gpu: str
    gpus: int
    max_power_w: float
    supplies: int | None
    supply_w: float | None
    supplies_needed: int | None
    input: str
    confidence: Confidence
    source: str
    notes: str


def servers() -> tuple[Server, ...]:
    """All servers."""
    return load("servers.csv", Server)


def find_server(name: str) -> Server:
    """The server of that name, case aside.

    Raises:
        UserError: There is none; the message has the nearest name and all names.
    """
    by_name = {row.server.lower(): row for row in servers()}
    if name.lower() in by_name:
        return by_name[name.lower()]
    near = difflib.get_close_matches(name.lower(), by_name, n=1)
    hint = f"did you mean {by_name[near[0]].server}? " if near else ""
    known = ", ".join(row.server for row in servers())
    raise UserError(f"no server is known as {name!r}: {hint}servers.csv has {known}; or give --gpu and --count")
