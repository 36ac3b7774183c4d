"""A server, or a set of equal ones: paths, network, placement, storage and what is wrong with them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from stoker.facts.gpus import find_gpu
from stoker.finding import Finding
from stoker.plan.topology import rates
from stoker.plan.topology.checks import check
from stoker.plan.topology.model import Server, Uplink
from stoker.plan.topology.network import Ports, ports_of_gpus, total_gb_s
from stoker.plan.topology.paths import Host, Path, all_paths, host_rates, ring_gb_s
from stoker.plan.topology.storage import Data, StoragePlan, plan_storage


@dataclass(frozen=True)
class TopologyPlan:
    """What is known of a set of servers.

    Attributes:
        server: One of them.
        servers: How many there are.
        uplinks: Theory and reached rate of each uplink, in the order of the server's.
        fabric: Theory and reached rate of all NVLinks of a GPU; None where there is none.
        paths: Every ordered pair of GPUs.
        ring_gb_s: What each GPU sends to the next while all do; None for one GPU.
        hosts: By GPU, what it reads from host memory.
        ports: By GPU, its share of the network.
        cluster_gb_s: What the cluster ports of a server carry, one way; None if not known.
        storage_gb_s: The same of its storage ports.
        storage: The tiers; None if no data set was given.
        findings: What is badly placed, shared or unknown.
    """

    server: Server
    servers: int
    uplinks: tuple[rates.Rate, ...]
    fabric: rates.Rate | None
    paths: tuple[Path, ...]
    ring_gb_s: float | None
    hosts: tuple[Host, ...]
    ports: tuple[Ports, ...]
    cluster_gb_s: float | None
    storage_gb_s: float | None
    storage: StoragePlan | None
    findings: tuple[Finding, ...]

    def path(self, one: int, other: int) -> Path:
        """The path from one GPU to another."""
        return next(path for path in self.paths if (path.one, path.other) == (one, other))

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self) | {"server": self.server.model_dump(mode="json"), "cited": list(self.server.cited())}


def plan_topology(
    server: Server, *, servers: int = 1, data: Data | None = None, fill_hours: float = 24
) -> TopologyPlan:
    """Plan a set of equal servers.

    Args:
        server: One of them.
        servers: How many there are.
        data: What they read; None leaves the storage out.
        fill_hours: In how many hours the object store must fill Ceph.
    """
    gpu = find_gpu(server.gpu)
    storage = plan_storage(server, servers, data, fill_hours=fill_hours) if data else None
    links = server.fabric.links_per_gpu if server.fabric else 0
    return TopologyPlan(
        server=server,
        servers=servers,
        uplinks=tuple(_uplink_rate(uplink) for uplink in server.uplinks),
        fabric=rates.fabric(gpu, links, links) if links else None,
        paths=all_paths(server, gpu),
        ring_gb_s=ring_gb_s(server, gpu) if server.gpus > 1 else None,
        hosts=host_rates(server, gpu),
        ports=ports_of_gpus(server),
        cluster_gb_s=total_gb_s(server, "cluster"),
        storage_gb_s=total_gb_s(server, "storage"),
        storage=storage,
        findings=(*check(server, gpu), *(storage.findings if storage else ())),
    )


def _uplink_rate(uplink: Uplink) -> rates.Rate:
    return rates.pcie(uplink.pcie_gen, uplink.lanes)
