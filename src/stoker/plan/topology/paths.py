"""The path of each pair of GPUs, and its rate: alone, and while every GPU talks to the next in a ring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stoker.facts.gpus import Gpu
from stoker.plan.topology import rates
from stoker.plan.topology.model import Fabric, Server, Uplink

Way = Literal["NVLink", "PCIe", "host memory"]


@dataclass(frozen=True)
class Path:
    """From one GPU to another.

    Attributes:
        kind: As `nvidia-smi topo -m` writes it: `NV12`, `PIX` below one switch, `NODE` within a NUMA node, `SYS`
            between two.
        way: What carries the data. `host memory` where the driver refuses peer to peer over PCIe.
        theory_gb_s: One way, of the narrowest part.
        expected_gb_s: One way, as reached in practice by this pair alone.
    """

    one: int
    other: int
    kind: str
    way: Way
    theory_gb_s: float
    expected_gb_s: float


@dataclass(frozen=True)
class Host:
    """What a GPU can read from the memory of its own processor, GB/s: alone, and while all below its uplink do."""

    alone_gb_s: float
    all_gb_s: float


def all_paths(server: Server, gpu: Gpu) -> tuple[Path, ...]:
    """The path of every ordered pair."""
    numbers = range(server.gpus)
    return tuple(path_between(server, gpu, one, other) for one in numbers for other in numbers if one != other)


def path_between(server: Server, gpu: Gpu, one: int, other: int) -> Path:
    """The path of one pair, and what it reaches with nothing else going on."""
    links = server.links_between(one, other)
    if server.fabric is not None and links:
        rate = rates.fabric(gpu, links, server.fabric.links_per_gpu)
        return Path(one, other, f"NV{links}", "NVLink", rate.theory, rate.reached)
    here, there = server.uplink_of(one), server.uplink_of(other)
    kind = "PIX" if _below_one_switch(here, there) else "NODE" if here.numa == there.numa else "SYS"
    capacity = _capacities(server, gpu)
    narrowest = min((slot_rate(uplink, gpu) for uplink in (here, there)), key=lambda rate: rate.theory)
    reached = min(capacity[part] for part in _crossed(server, gpu, one, other))
    if gpu.p2p_over_pcie:
        return Path(one, other, kind, "PCIe", narrowest.theory, reached)
    reached = min(reached, rates.through_host_memory(narrowest))
    return Path(one, other, kind, "host memory", narrowest.theory, reached)


def ring_gb_s(server: Server, gpu: Gpu) -> float:
    """What each GPU can send while all send to the next in a ring: it bounds the bus bandwidth of an all-reduce.

    The ring goes from neighbour to neighbour, as NCCL would choose it. Each part on the way is shared evenly by
    the streams that cross it in the same direction. Where each GPU is linked directly to several others, NCCL
    lays rings over all these links, so that they count together.
    """
    if server.gpus == 1:
        return float("inf")
    if server.fabric is not None and not server.fabric.switches:
        peers = Counter(number for pair in server.fabric.pairs for number in pair.gpus)
        if min(peers[number] for number in range(server.gpus)) > 1:
            used = min(_links_used(server.fabric, number) for number in range(server.gpus))
            return rates.fabric(gpu, used, server.fabric.links_per_gpu).reached
    order = _ring_order(server)
    pairs = list(zip(order, (*order[1:], order[0]), strict=True))
    crossed = {pair: _crossed(server, gpu, *pair) for pair in pairs}
    load = Counter(part for parts in crossed.values() for part in parts)
    capacity = _capacities(server, gpu)
    alone = [path_between(server, gpu, *pair).expected_gb_s for pair in pairs]
    return min([*alone, *(capacity[part] / streams for part, streams in load.items())])


def host_rates(server: Server, gpu: Gpu) -> tuple[Host, ...]:
    """What each GPU reads from host memory."""
    found: list[Host] = []
    for number in range(server.gpus):
        uplink = server.uplink_of(number)
        whole = rates.pcie(uplink.pcie_gen, uplink.lanes).reached
        alone = min(whole, slot_rate(uplink, gpu).reached)
        found.append(Host(alone, min(alone, whole / len(uplink.gpus))))
    return tuple(found)


def slot_rate(uplink: Uplink, gpu: Gpu) -> rates.Rate:
    """The slot of a GPU: no faster than the card, the slot, or (without a switch) the link behind it."""
    lanes = uplink.slot_lanes if uplink.switch else min(uplink.slot_lanes, uplink.lanes)
    generation = min(uplink.pcie_gen, gpu.pcie_gen or uplink.pcie_gen)
    return rates.pcie(generation, min(lanes, gpu.pcie_lanes or lanes))


def _below_one_switch(here: Uplink, there: Uplink) -> bool:
    return here is there and here.switch


def _crossed(server: Server, gpu: Gpu, one: int, other: int) -> Sequence[str]:
    """The parts that a stream of PCIe takes, each in its direction; none of them for one over NVLink.

    Without peer to peer the stream goes up to the memory of the host and down again, also below one switch.
    """
    if server.links_between(one, other):
        return ()
    here, there = server.uplink_of(one), server.uplink_of(other)
    ends = (f"card {one} up", f"card {other} down")
    if _below_one_switch(here, there) and gpu.p2p_over_pcie:
        return ends
    between = () if here.socket == there.socket else (f"socket {here.socket} to {there.socket}",)
    return (*ends, f"uplink {here.name} up", f"uplink {there.name} down", *between)


def _capacities(server: Server, gpu: Gpu) -> Mapping[str, float]:
    """What each part carries in one direction, GB/s."""
    found: dict[str, float] = {}
    for uplink in server.uplinks:
        for direction in ("up", "down"):
            found[f"uplink {uplink.name} {direction}"] = rates.pcie(uplink.pcie_gen, uplink.lanes).reached
            for number in uplink.gpus:
                found[f"card {number} {direction}"] = slot_rate(uplink, gpu).reached
    sockets = range(server.processors.sockets)
    for here in sockets:
        for there in sockets:
            if here != there:
                found[f"socket {here} to {there}"] = rates.socket_rate(server.processors.link)
    return found


def _links_used(fabric: Fabric, number: int) -> int:
    return sum(pair.links for pair in fabric.pairs if number in pair.gpus)


def _ring_order(server: Server) -> Sequence[int]:
    """Linked cards follow each other, then cards of one uplink, then those of one socket."""
    place = {number: index for index, uplink in enumerate(server.uplinks) for number in uplink.gpus}

    def key(number: int) -> tuple[int, int, int]:
        linked = [other for other in range(server.gpus) if other == number or server.links_between(number, other)]
        return server.uplink_of(number).socket, min(place[other] for other in linked), place[number]

    return sorted(range(server.gpus), key=key)
