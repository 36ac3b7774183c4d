"""Network: RDMA ports, their addresses and speed, GPUDirect, and interfaces that other machines can reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, warn
from stoker.doctor.checks.lookup import SMI
from stoker.host.probes.network import Port
from stoker.host.snapshot import Snapshot

IB = "/sys/class/infiniband"
_NO_PORTS = "There is no RDMA card here."


@check("rdma-ports", needs=("network.interfaces",))
def rdma_ports(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """A port with a cable must be active; of several alike, all should be."""
    ports = machine.network.ports
    if not ports:
        yield fine(_NO_PORTS)
        return
    active = [port for port in ports if port.state == "ACTIVE"]
    for port in ports:
        if port.state == "ACTIVE":
            continue
        shows = seen(f"{IB}/{port.device}/ports/{port.port}/state", f"{port.state} ({port.physical})")
        if port.physical == "LinkUp" or port.state in ("INIT", "ARMED"):
            yield fail(
                "rdma-port-not-active", f"The port {port.label} has a link and is {port.state}.", shows, port=port.label
            )
        elif len(active) >= limits["active_beside"]:
            yield warn(
                "rdma-port-not-active",
                f"The port {port.label} is {port.state}, while {len(active)} others are active.",
                shows,
                port=port.label,
            )
    if not active:
        yield warn(
            "rdma-port-not-active",
            "No RDMA port is active.",
            *(seen(f"{IB}/{port.device}", f"{port.state} ({port.physical})") for port in ports[:2]),
            port=ports[0].label,
        )


@check("rdma-rate", needs=("network.interfaces",))
def rdma_rate(machine: Snapshot) -> Iterator[Found]:
    """The slowest of several rails sets the pace of collectives."""
    active = [port for port in machine.network.ports if port.state == "ACTIVE" and port.rate]
    rates = Counter(port.rate for port in active)
    if len(rates) < 2:
        return
    usual, count = rates.most_common(1)[0]
    slow = [port for port in active if (port.rate or 0) < (usual or 0)]
    if count > len(active) / 2 and slow:
        yield warn(
            "rdma-port-slow",
            f"{', '.join(port.label for port in slow)} runs slower than the other ports.",
            *(
                seen(f"{IB}/{port.device}/ports/{port.port}/rate", f"{port.rate:g} Gb/s; others {usual:g}")
                for port in slow[:3]
            ),
        )


@check("rdma-errors", needs=("network.interfaces",))
def rdma_errors(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Links that went down and came back, and symbols that arrived wrong."""
    for port in machine.network.ports:
        counters = port.counters or {}
        flaps, symbols = counters.get("link_downed", 0), counters.get("symbol_error", 0)
        if flaps > limits["flaps"] or symbols > limits["symbols"]:
            text = ", ".join(f"{name} {count}" for name, count in counters.items())
            yield warn(
                "nic-fabric-event",
                f"The link of {port.label} went down {flaps} times and had {symbols} symbol errors.",
                seen(f"{IB}/{port.device}/ports/{port.port}/counters", text),
            )


@check("roce-addresses", needs=("network.interfaces",))
def roce_addresses(machine: Snapshot) -> Iterator[Found]:
    """An active RoCE port needs a version 2 address with an IP address in it, or it reaches nobody beyond a router."""
    roce = [port for port in machine.network.ports if port.layer == "Ethernet" and port.state == "ACTIVE"]
    if not roce:
        yield fine("There is no active RoCE port here.")
    for port in roce:
        if port.gids and not _routable(port):
            yield warn(
                "roce-gid-index-wrong",
                f"The RoCE port {port.label} has no routable version 2 address.",
                *(
                    seen(f"{IB}/{port.device}/ports/{port.port}/gids/{gid.index}", f"{gid.address} {gid.kind}")
                    for gid in port.gids[:3]
                ),
            )


def _routable(port: Port) -> bool:
    """Not only link-local: an IPv4 address lies in ::ffff:0:0/96."""
    return any("v2" in gid.kind.lower() and not gid.address.startswith("fe80") for gid in port.gids)


@check("gpudirect", needs=("gpu", "modules.loaded"))
def gpudirect(machine: Snapshot) -> Iterator[Found]:
    """RDMA cards reach GPU memory through nvidia-peermem, or through DMA-BUF with the open modules."""
    if not any(port.state == "ACTIVE" for port in machine.network.ports):
        yield fine("There is no active RDMA port here.")
    elif "nvidia_peermem" not in machine.modules.loaded and machine.driver.flavour != "open":
        yield warn(
            "gpudirect-rdma-not-enabled",
            "Neither nvidia-peermem nor the open modules are there, so RDMA copies through main memory.",
            seen("/proc/modules", "no nvidia_peermem"),
            seen("/proc/driver/nvidia/version", machine.driver.loaded_line or SMI),
        )


@check("interfaces", needs=("network.interfaces", "network.addresses"))
def interfaces(machine: Snapshot) -> Iterator[Found]:
    """Several machines need an interface that is up and has an address."""
    if not machine.network.usable():
        names = ", ".join(f"{one.name} {one.state}" for one in machine.network.interfaces[:6]) or "none but lo"
        yield info(
            "no-usable-network-interface-in-container",
            "No real network interface is up and has an address: one machine alone can work.",
            seen("/sys/class/net", names),
        )


@check("interface-speed", needs=("network.interfaces",))
def interface_speed(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """A network card that agreed on less than it can is often a cable or a switch port."""
    for one in machine.network.interfaces:
        if one.speed is not None and one.state == "up" and not one.virtual and one.speed <= limits["least_mbit"]:
            yield warn(
                "interface-slow",
                f"The interface {one.name} runs at {one.speed} Mbit/s.",
                seen(f"/sys/class/net/{one.name}/speed", str(one.speed)),
                name=one.name,
            )
