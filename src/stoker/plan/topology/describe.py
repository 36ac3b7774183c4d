"""A topology plan as text for a person."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from stoker.plan.topology.model import Server, Uplink
from stoker.plan.topology.network import Nearness, Ports
from stoker.plan.topology.plan import TopologyPlan
from stoker.plan.topology.rates import Rate, socket_rate
from stoker.plan.topology.storage import StoragePlan

_WIDTH = 110
_NEAR: dict[Nearness, str] = {
    "switch": "same switch",
    "numa": "same NUMA node",
    "socket": "same socket",
    "far": "other socket",
}


def to_text(plan: TopologyPlan) -> str:
    """The plan for a person: what hangs where, the rate of each pair, placement, network, storage, advice."""
    server = plan.server
    count = f"{plan.servers} x " if plan.servers > 1 else ""
    parts: list[Iterator[str] | Sequence[str]] = [
        [f"{count}{server.name}: {server.gpus} x {server.gpu}"],
        _uplinks(plan),
        _fabric(plan),
        _matrix(plan),
        _gpus(plan),
        _network(plan),
        _storage(plan.storage) if plan.storage else [],
        _findings(plan),
        _notes(server),
    ]
    return "\n".join(line.rstrip() for part in parts for line in part) + "\n"


def _uplinks(plan: TopologyPlan) -> Iterator[str]:
    yield ""
    yield "PCIe: what shares a link of a processor"
    width = max(len(uplink.name) for uplink in plan.server.uplinks)
    for uplink, rate in zip(plan.server.uplinks, plan.uplinks, strict=True):
        slots = ", ".join((*(f"GPU {number}" for number in uplink.gpus), *uplink.nics))
        yield f"  {uplink.name:<{width}}  {_link(uplink, rate)}  {slots}"
    processors = plan.server.processors
    if processors.sockets > 1:
        rate = f"{socket_rate(processors.link):g} GB/s each way, as NCCL plans with"
        yield f"  {processors.sockets} sockets, joined by an {processors.link}: {rate}"


def _link(uplink: Uplink, rate: Rate) -> str:
    place = f"socket {uplink.socket}, NUMA {uplink.numa}"
    return f"PCIe {uplink.pcie_gen} x{uplink.lanes:<2}  {rate.reached:4.1f} of {rate.theory:4.1f} GB/s  {place}"


def _fabric(plan: TopologyPlan) -> Iterator[str]:
    if plan.fabric is None or plan.server.fabric is None:
        return
    fabric = plan.server.fabric
    if fabric.switches:
        shape = f"through {fabric.switches} switches to every other GPU"
    else:
        shape = ", ".join(f"GPU {pair.gpus[0]} to {pair.gpus[1]} by {pair.links}" for pair in fabric.pairs)
    yield ""
    rate = f"{plan.fabric.theory:g} GB/s each way, about {plan.fabric.reached:.0f} reached"
    yield f"NVLink: {fabric.links_per_gpu} links of a GPU, {rate}; {shape}"


def _matrix(plan: TopologyPlan) -> Iterator[str]:
    numbers = range(plan.server.gpus)
    if plan.ring_gb_s is None:
        return
    yield ""
    yield "Peers: GB/s one way that a pair reaches alone, and its path"
    cells = [
        [
            "-" if one == other else f"{(path := plan.path(one, other)).expected_gb_s:.0f} {path.kind}"
            for other in numbers
        ]
        for one in numbers
    ]
    width = max(len(cell) for row in cells for cell in row)
    yield "         " + "  ".join(f"{f'GPU {number}':>{width}}" for number in numbers)
    for number, row in zip(numbers, cells, strict=True):
        yield f"  {f'GPU {number}':<6} " + "  ".join(f"{cell:>{width}}" for cell in row)
    ways = dict.fromkeys(path.way for path in plan.paths)
    yield f"  over {' and '.join(ways)}; all at once in a ring: {plan.ring_gb_s:.1f} GB/s for each GPU"


def _gpus(plan: TopologyPlan) -> Iterator[str]:
    yield ""
    yield "Placement: pin the processes of a GPU to its NUMA node; GB/s from host memory alone, and while all read"
    for number, (host, ports) in enumerate(zip(plan.hosts, plan.ports, strict=True)):
        uplink = plan.server.uplink_of(number)
        pin = f"numactl --cpunodebind={uplink.numa} --membind={uplink.numa}"
        yield f"  GPU {number}  {pin}  {host.alone_gb_s:4.1f}, {host.all_gb_s:4.1f}  {_ports(ports)}"


def _ports(ports: Ports) -> str:
    if not ports.nics:
        return "no network port"
    rate = "rate not known" if ports.gb_s is None else f"{ports.gb_s:g} GB/s"
    return f"{', '.join(ports.nics)} ({_NEAR[ports.nearness]}), {rate}"


def _network(plan: TopologyPlan) -> Iterator[str]:
    shown = [("between servers", plan.cluster_gb_s), ("to the storage", plan.storage_gb_s)]
    known = [f"{rate:g} GB/s {use}" for use, rate in shown if rate]
    if known:
        yield ""
        yield f"Network of a server, one way: {', '.join(known)}"


def _storage(plan: StoragePlan) -> Iterator[str]:
    data = plan.data
    yield ""
    yield (
        f"Storage: {data.gb:,.0f} GB read {data.epochs} times at {data.samples_per_second:,.0f} samples/s of "
        f"{data.bytes_per_sample:,.0f} bytes"
    )
    yield (
        f"  {data.gb_s:.3g} GB/s in all, {plan.per_server_gb_s:.3g} per server, {plan.per_gpu_gb_s:.3g} per GPU, "
        f"for {plan.hours:,.1f} h; {plan.from_warm_tb:,.1f} of {plan.read_tb:,.1f} TB come from Ceph"
    )
    for tier in plan.tiers:
        holds = f"holds {tier.holds_gb:,.0f} GB on {tier.raw_tb:,.1f} TB of drives"
        yield f"  {tier.name:<5} {holds}, {tier.read_gb_s:.2g} GB/s ({tier.why})"


def _findings(plan: TopologyPlan) -> Iterator[str]:
    if plan.findings:
        yield ""
    for finding in plan.findings:
        yield from _wrapped(f"{finding.state}: {finding.title}")
        for step in finding.fix:
            yield from _wrapped(f"do: {step}", "    ")


def _notes(server: Server) -> Iterator[str]:
    if server.notes or server.cited():
        yield ""
    for note in server.notes:
        yield from _wrapped(f"note: {note}")
    for source in server.cited():
        yield f"source: {source}"


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}    ", break_long_words=False)
