"""Which network port belongs to which GPU, and what each GPU gets of the network."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from stoker.plan.topology import rates
from stoker.plan.topology.model import Nic, Server, Use

Nearness = Literal["switch", "numa", "socket", "far"]
_ORDER: tuple[Nearness, ...] = ("switch", "numa", "socket", "far")


@dataclass(frozen=True)
class Ports:
    """The cluster ports of one GPU.

    Attributes:
        gpu: Its number.
        nics: The ports nearest to it; none if the server has no cluster port.
        nearness: How near: below the same PCIe switch, on its NUMA node, on its socket, or across sockets.
        gb_s: Its share of the ports' rate, one way; None if the rate of a port is not known.
    """

    gpu: int
    nics: tuple[str, ...]
    nearness: Nearness
    gb_s: float | None


def ports_of_gpus(server: Server) -> tuple[Ports, ...]:
    """The nearest cluster ports of each GPU; ports that several GPUs share are shared evenly."""
    near = {number: _nearest(server, number) for number in range(server.gpus)}
    sharers = Counter(nic.name for nics, _ in near.values() for nic in nics)
    return tuple(
        Ports(number, tuple(nic.name for nic in nics), nearness, _share(server, nics, sharers))
        for number, (nics, nearness) in near.items()
    )


def total_gb_s(server: Server, use: Use) -> float | None:
    """What the ports of one use carry together, one way; None if a rate is not known, 0 if there is none.

    Data goes through the processors, so ports for storage carry no more than the uplinks they hang on.
    """
    on_uplink: dict[str, float] = {}
    limit: dict[str, float] = {}
    for nic in (nic for nic in server.nics if nic.use == use):
        carried, uplink = _carried(server, nic), server.uplink_of_nic(nic.name)
        if carried is None:
            return None
        place = uplink.name if uplink else nic.name
        on_uplink[place] = on_uplink.get(place, 0.0) + carried
        if uplink and use == "storage":
            limit[place] = rates.pcie(uplink.pcie_gen, uplink.lanes).theory
    return sum(min(rate, limit.get(place, rate)) for place, rate in on_uplink.items())


def _nearest(server: Server, gpu: int) -> tuple[list[Nic], Nearness]:
    cluster = [nic for nic in server.nics if nic.use == "cluster"]
    for nearness in _ORDER:
        nics = [nic for nic in cluster if _nearness(server, gpu, nic) == nearness]
        if nics:
            return nics, nearness
    return [], "far"


def _nearness(server: Server, gpu: int, nic: Nic) -> Nearness:
    here, there = server.uplink_of(gpu), server.uplink_of_nic(nic.name)
    if there is None or here.socket != there.socket:
        return "far"
    if here is there and here.switch:
        return "switch"
    return "numa" if here.numa == there.numa else "socket"


def _share(server: Server, nics: list[Nic], sharers: Counter[str]) -> float | None:
    total = 0.0
    for nic in nics:
        carried = _carried(server, nic)
        if carried is None:
            return None
        total += carried / sharers[nic.name]
    return total


def _carried(server: Server, nic: Nic) -> float | None:
    """The rate of a port, one way, no more than its slot carries."""
    if nic.gbit_s is None:
        return None
    uplink = server.uplink_of_nic(nic.name)
    if uplink is None:
        return nic.gbit_s / 8
    lanes = uplink.slot_lanes if uplink.switch else min(uplink.slot_lanes, uplink.lanes)
    return min(nic.gbit_s / 8, rates.pcie(uplink.pcie_gen, lanes).theory)
