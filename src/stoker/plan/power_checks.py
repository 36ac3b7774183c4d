"""The rules of power: what is unsafe, what is fine, what is not known. Pure functions that yield findings."""

from __future__ import annotations

import math
from collections.abc import Iterator

from stoker.facts.servers import Server
from stoker.finding import Finding
from stoker.plan.feed import CONTINUOUS_SHARE, Circuit, Supplies

BREAKER_RULE = "NFPA 70 (NEC) 210.20(A)"


def check_supplies(gpu_w: float, server_w: float, supplies: Supplies | None) -> Iterator[Finding]:
    """The supplies carry the server, and still do when the spare ones have failed."""
    if supplies is None:
        yield Finding("unknown", "power.supplies", "the supplies are not known: give --supplies", area="power")
        return
    every = supplies.count * supplies.watts
    left = (supplies.count - supplies.spare) * supplies.watts
    needed = math.ceil(server_w / supplies.watts) + max(supplies.spare, 1)
    fix = (f"take {needed} supplies of {supplies.watts:g} W, or larger ones",)
    if gpu_w >= every:
        title = f"the GPUs alone draw {gpu_w:g} W, as much as {supplies} give together: nothing is left for the rest"
        yield Finding("fail", "power.overload", title, fix=fix, area="power")
    elif server_w > every:
        title = f"the server draws up to {server_w:.0f} W and {supplies} give {every:g} W"
        yield Finding("fail", "power.overload", title, fix=fix, area="power")
    elif supplies.spare == 0:
        title = f"{supplies} carry {server_w:.0f} W, but none is spare: one failed supply stops the server"
        yield Finding("warn", "power.no_redundancy", title, fix=fix, area="power")
    elif server_w > left:
        title = f"with {supplies.spare} of {supplies} failed, {left:g} W are left for up to "
        title += f"{server_w:.0f} W: the server stops"
        yield Finding("fail", "power.no_redundancy", title, fix=fix, area="power")
    else:
        title = f"{supplies} carry {server_w:.0f} W even with {supplies.spare} failed ({left:g} W)"
        yield Finding("ok", "power.supplies", title, area="power")


def check_feeds(supplies: Supplies | None, circuit: Circuit) -> Iterator[Finding]:
    """Losing a whole feed loses its share of the supplies, which can be more than are spare."""
    if supplies is None or circuit.feeds == 1:
        return
    lost = math.ceil(supplies.count / circuit.feeds)
    needed = supplies.count - supplies.spare
    title = f"a failed feed takes {lost} of {supplies.count} supplies with it: {supplies.count - lost} are left, "
    if lost > supplies.spare:
        title += f"and {needed} are needed for full power"
        fix = ("spread the supplies over more feeds, or accept that the server slows down or stops with a feed",)
        yield Finding("warn", "power.feeds", title, fix=fix, area="power")
    else:
        yield Finding("ok", "power.feeds", f"{title}enough for full power ({needed})", area="power")


def check_phases(supplies: Supplies | None, circuit: Circuit) -> Iterator[Finding]:
    """Supplies are single-phase: a number that three does not divide loads one phase more than the others."""
    if supplies is None or circuit.phases == 1:
        return
    on_feed = math.ceil(supplies.count / circuit.feeds)
    if on_feed % circuit.phases:
        most = math.ceil(on_feed / circuit.phases)
        title = f"{on_feed} supplies on {circuit.phases} phases: the fullest phase carries {most / on_feed:.0%}"
        yield Finding("warn", "power.phases", f"{title} of a feed's load", area="power")


def check_voltage(server: Server | None, circuit: Circuit) -> Iterator[Finding]:
    """A supply sits between two conductors: the voltage between phases or from a phase to neutral fits it."""
    if server is None or server.volts_min is None or server.volts_max is None:
        return
    possible = [circuit.volts] if circuit.phases == 1 else [circuit.volts, circuit.volts / math.sqrt(3)]
    if not any(server.volts_min <= volts <= server.volts_max for volts in possible):
        seen = " and ".join(f"{volts:.0f} V" for volts in possible)
        title = f"the {server.server} takes {server.volts_min:g} to {server.volts_max:g} V, the feed has {seen}"
        fix = ("give the voltage of a feed that fits, such as --volts 230, or --volts 400 --phases 3",)
        yield Finding("fail", "power.voltage", title, fix=fix, source=server.source, area="power")


def check_circuit(amperes: float, circuit: Circuit) -> Iterator[Finding]:
    """The breaker carries the current continuously."""
    if circuit.breaker_a is None:
        return
    allowed = circuit.breaker_a * CONTINUOUS_SHARE
    text = f"{amperes:.1f} A continuously on a breaker of {circuit.breaker_a:g} A, which carries {allowed:g} A so"
    if amperes > allowed:
        fix = (f"take a breaker of at least {amperes / CONTINUOUS_SHARE:.0f} A, or more circuits",)
        yield Finding("fail", "power.circuit", text, fix=fix, source=BREAKER_RULE, area="power")
    else:
        yield Finding("ok", "power.circuit", text, source=BREAKER_RULE, area="power")
