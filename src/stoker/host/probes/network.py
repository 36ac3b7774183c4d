"""Network interfaces, and RDMA devices (InfiniBand and RoCE) with their ports and addresses."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from stoker.host.probing import Notes, integer, matching, names_of, number, text_of
from stoker.host.source import Source

_VIRTUAL = re.compile(
    r"docker|br-|veth|virbr|cni|flannel|cali|lxc|lxdbr|podman|vnet|tap|tun|cilium|nerdctl|dummy|kube|ifb|sit|gre|"
    r"ip6tnl|wg|tailscale"
)
MAX_GIDS = 64
"""Entries looked at in a port's table of addresses: NICs have up to 256, most of them empty."""


@dataclass(frozen=True)
class Interface:
    """A network interface. Speed in Mbit/s; None if it does not say."""

    name: str
    state: str = ""
    carrier: bool | None = None
    speed: int | None = None
    mtu: int | None = None
    driver: str = ""
    virtual: bool = False
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True)
class Gid:
    """An address of an RDMA port: `kind` is `IB/RoCE v1` or `RoCE v2`."""

    index: int
    address: str
    kind: str = ""


@dataclass(frozen=True)
class Port:
    """A port of an RDMA device.

    Attributes:
        state: `ACTIVE`, `DOWN`, `INIT`; `physical` such as `LinkUp`, `Polling`.
        rate: In Gbit/s.
        layer: `InfiniBand` or `Ethernet`.
        counters: Errors since the driver was loaded.
    """

    device: str
    port: int
    state: str = ""
    physical: str = ""
    rate: float | None = None
    layer: str = ""
    gids: tuple[Gid, ...] = ()
    counters: dict[str, int] | None = None
    pci: str = ""
    netdev: str = ""

    @property
    def label(self) -> str:
        """As NCCL writes it: `mlx5_0:1`."""
        return f"{self.device}:{self.port}"


@dataclass(frozen=True)
class Network:
    """Interfaces and RDMA ports."""

    interfaces: tuple[Interface, ...] = ()
    ports: tuple[Port, ...] = ()

    def usable(self) -> tuple[Interface, ...]:
        """Real interfaces that are up and have an address."""
        return tuple(one for one in self.interfaces if not one.virtual and one.state == "up" and one.addresses)


def read(source: Source, notes: Notes) -> Network:
    """Read the section."""
    addresses = parse_addresses(notes.output("addresses", source.run(["ip", "-j", "address"])) or "")
    if not addresses:
        notes.unknown.setdefault("addresses", "`ip` lists none")
    names = notes.take("interfaces", source.names("/sys/class/net")) or ()
    interfaces = tuple(_interface(source, name, addresses) for name in names if name not in ("lo", "bonding_masters"))
    ports = tuple(
        _port(source, device, int(port))
        for device in names_of(source.names("/sys/class/infiniband"))
        for port in matching(names_of(source.names(f"/sys/class/infiniband/{device}/ports")), r"\d{1,3}")
    )
    return Network(interfaces, ports)


def is_virtual(name: str) -> bool:
    """Whether an interface of this name belongs to containers or virtual machines."""
    return bool(_VIRTUAL.match(name))


def parse_addresses(text: str) -> dict[str, tuple[str, ...]]:
    """Addresses with their prefix by interface, from `ip -j address`; those of the link itself are left out."""
    try:
        rows = json.loads(text or "[]")
        return {
            str(row["ifname"]): tuple(
                f"{one['local']}/{one['prefixlen']}" for one in row.get("addr_info", ()) if one.get("scope") != "link"
            )
            for row in cast("list[dict[str, Any]]", rows)
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def _interface(source: Source, name: str, addresses: dict[str, tuple[str, ...]]) -> Interface:
    folder = f"/sys/class/net/{name}"
    speed = integer(text_of(source.read(f"{folder}/speed")))
    driver = text_of(source.link(f"{folder}/device/driver")).rpartition("/")[2]
    return Interface(
        name,
        text_of(source.read(f"{folder}/operstate")).strip(),
        {"1": True, "0": False}.get(text_of(source.read(f"{folder}/carrier")).strip()),
        speed if speed is not None and speed > 0 else None,
        integer(text_of(source.read(f"{folder}/mtu"))),
        driver,
        is_virtual(name),
        addresses.get(name, ()),
    )


def _port(source: Source, device: str, port: int) -> Port:
    base = f"/sys/class/infiniband/{device}"
    folder = f"{base}/ports/{port}"
    names = ("symbol_error", "link_downed", "link_error_recovery", "port_rcv_errors", "local_link_integrity_errors")
    counters = {name: value for name in names if (value := integer(text_of(source.read(f"{folder}/counters/{name}"))))}
    return Port(
        device,
        port,
        after_colon(text_of(source.read(f"{folder}/state"))),
        after_colon(text_of(source.read(f"{folder}/phys_state"))),
        number(text_of(source.read(f"{folder}/rate"))),
        text_of(source.read(f"{folder}/link_layer")).strip(),
        _gids(source, folder),
        counters or None,
        text_of(source.link(f"{base}/device")).rpartition("/")[2],
        next(iter(names_of(source.names(f"{base}/device/net"))), ""),
    )


def after_colon(text: str) -> str:
    """`ACTIVE` of `4: ACTIVE`."""
    return text.rpartition(":")[2].strip()


def _gids(source: Source, folder: str) -> tuple[Gid, ...]:
    gids: list[Gid] = []
    indices = sorted(int(name) for name in matching(names_of(source.names(f"{folder}/gids")), r"\d{1,4}"))
    for index in indices[:MAX_GIDS]:
        address = text_of(source.read(f"{folder}/gids/{index}")).strip()
        if address.replace(":", "").strip("0"):
            kind = text_of(source.read(f"{folder}/gid_attrs/types/{index}")).strip()
            gids.append(Gid(index, address, kind))
    return tuple(gids)
