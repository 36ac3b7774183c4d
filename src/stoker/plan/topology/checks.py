"""What is badly placed, missing or shared in a server. Pure functions that yield findings."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.facts.gpus import Gpu
from stoker.finding import Finding
from stoker.plan.topology import rates
from stoker.plan.topology.model import Server
from stoker.plan.topology.network import ports_of_gpus

BRIDGE_RULE = "NVIDIA A100 PCIe product brief PB-10137-001_v03, NVLink Bridge Support"
SWITCH_RULE = "https://github.com/NVIDIA/nccl/issues/1309"


def check(server: Server, gpu: Gpu) -> Iterator[Finding]:
    """Every rule, the gravest kind of mistake first."""
    yield from check_bridges(server, gpu)
    yield from check_peer_to_peer(server, gpu)
    yield from check_slots(server, gpu)
    yield from check_uplinks(server, gpu)
    yield from check_ports(server)


def check_bridges(server: Server, gpu: Gpu) -> Iterator[Finding]:
    """Bridged cards are all paired, by all the bridges they take, and on one processor."""
    if not gpu.peer_link_bridge or gpu.peer_link_gb_s is None:
        return
    pairs = server.fabric.pairs if server.fabric else ()
    bridged = {number for pair in pairs for number in pair.gpus}
    alone = [number for number in range(server.gpus) if number not in bridged]
    if len(alone) > 1:
        title = f"{_gpus(alone)} are not bridged, though the {gpu.model} takes a bridge to its neighbour"
        fix = ("bridge neighbouring cards in pairs",)
        yield Finding("warn", "topology.unbridged", title, fix=fix, source=BRIDGE_RULE, area="topology")
    for pair in pairs:
        if server.uplink_of(pair.gpus[0]).socket != server.uplink_of(pair.gpus[1]).socket:
            title = f"the bridge of {_gpus(pair.gpus)} joins cards of two processors"
            fix = ("move both cards of a pair below one processor",)
            yield Finding("warn", "topology.bridge_across", title, fix=fix, source=BRIDGE_RULE, area="topology")
        if pair.links < rates.fabric_links(gpu):
            title = f"{_gpus(pair.gpus)} are joined by {pair.links} of {rates.fabric_links(gpu)} links"
            fix = ("fit every bridge that the cards take: all of them are needed",)
            yield Finding("warn", "topology.bridge_missing", title, fix=fix, source=BRIDGE_RULE, area="topology")


def check_peer_to_peer(server: Server, gpu: Gpu) -> Iterator[Finding]:
    """Cards whose stock driver refuses peer to peer over PCIe send everything through host memory."""
    joined = server.fabric is not None and server.fabric.switches > 0
    if server.gpus == 1 or joined or gpu.p2p_over_pcie:
        return
    state = "unknown" if gpu.p2p_over_pcie is None else "warn"
    title = f"the stock driver does not let {gpu.model} cards read each other over PCIe: their traffic goes "
    title += "through the memory of the host"
    if gpu.p2p_over_pcie is None:
        title = f"whether {gpu.model} cards may read each other over PCIe is not known: planned as if not"
    meaning = "data parallel training of large models waits for gradients; tensor parallel layouts are not for these"
    fix = ("prefer layouts with little traffic: gradient accumulation, and a model that fits one card",)
    yield Finding(
        state, "topology.no_p2p", title, meaning=meaning, fix=fix, source=f"gpus.csv: {gpu.source}", area="topology"
    )
    for uplink in server.uplinks:
        if uplink.switch and len(uplink.gpus) > 1:
            title = f"the switch of {_gpus(uplink.gpus)} is no help to them: what they send each other goes up "
            title += f"{uplink.name} and down again"
            yield Finding("info", "topology.idle_switch", title, source=SWITCH_RULE, area="topology")


def check_slots(server: Server, gpu: Gpu) -> Iterator[Finding]:
    """A card in a slot that is narrower or older than itself."""
    for number in range(server.gpus):
        uplink = server.uplink_of(number)
        lanes = uplink.slot_lanes if uplink.switch else min(uplink.slot_lanes, uplink.lanes)
        if gpu.pcie_lanes is None or gpu.pcie_gen is None:
            continue
        if lanes < gpu.pcie_lanes or uplink.pcie_gen < gpu.pcie_gen:
            title = f"GPU {number} is made for PCIe {gpu.pcie_gen} x{gpu.pcie_lanes} and sits at PCIe "
            title += f"{min(uplink.pcie_gen, gpu.pcie_gen)} x{min(lanes, gpu.pcie_lanes)} ({uplink.name})"
            fix = ("move it to a wider slot, or expect the rates of the narrow one",)
            yield Finding("warn", "topology.slot", title, fix=fix, area="topology")


def check_uplinks(server: Server, gpu: Gpu) -> Iterator[Finding]:
    """Several cards below one uplink share what comes from the processor and from the disks behind it."""
    for uplink in server.uplinks:
        if len(uplink.gpus) > 1:
            whole = rates.pcie(min(uplink.pcie_gen, gpu.pcie_gen or uplink.pcie_gen), uplink.lanes).reached
            title = f"{_gpus(uplink.gpus)} share one PCIe {uplink.pcie_gen} x{uplink.lanes} ({uplink.name}): "
            title += f"{whole / len(uplink.gpus):.1f} GB/s from the host for each while all read"
            yield Finding("info", "topology.shared_uplink", title, area="topology")


def check_ports(server: Server) -> Iterator[Finding]:
    """GPUs whose nearest cluster port is on another socket."""
    ports = ports_of_gpus(server)
    if not any(port.nics for port in ports):
        title = "the server has no port for the traffic between servers: it can train alone only"
        yield Finding("info", "topology.no_port", title, area="topology")
        return
    far = [port.gpu for port in ports if port.nearness == "far"]
    if far:
        title = f"{_gpus(far)} reach a network port only across the link between the processors"
        fix = ("put a port below each processor, or better below each PCIe switch",)
        yield Finding("warn", "topology.far_port", title, fix=fix, area="topology")


def _gpus(numbers: tuple[int, ...] | list[int]) -> str:
    """`GPU 3`, or `GPUs 0 to 3` where they follow each other."""
    ordered = sorted(numbers)
    if len(ordered) == 1:
        return f"GPU {ordered[0]}"
    if len(ordered) > 2 and ordered == list(range(ordered[0], ordered[-1] + 1)):
        return f"GPUs {ordered[0]} to {ordered[-1]}"
    return f"GPUs {', '.join(map(str, ordered[:-1]))} and {ordered[-1]}"
