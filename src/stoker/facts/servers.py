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
        supplies: Its power supplies, of `supply_w` each; it runs at full power on `supplies_needed` of them.
            None if not known.
        volts_min: The lowest voltage at a supply that it is built for; `volts_max` the highest.
        heat_btu_h: Heat given off as its document says, BTU/h; it need not be that of `max_power_w`.
        airflow_cfm: Air through it as its document says, cubic feet per minute.
        max_inlet_c: The warmest air it may take in, degrees Celsius.
    """

    server: str
    gpu: str
    gpus: int
    max_power_w: float
    supplies: int | None
    supply_w: float | None
    supplies_needed: int | None
    volts_min: float | None
    volts_max: float | None
    heat_btu_h: float | None
    airflow_cfm: float | None
    max_inlet_c: float | None
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
