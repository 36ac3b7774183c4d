"""How long a collective takes: latency and bandwidth on two levels, inside a node and between nodes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stoker.plan.hardware import Link


@dataclass(frozen=True)
class Network:
    """What joins the ranks.

    Attributes:
        node: Link between GPUs of a node.
        between: Link between nodes, one port per GPU unless `gpus_per_port` says otherwise.
        gpus_per_node: GPUs of a node.
        gpus_per_port: GPUs that share a port.
    """

    node: Link
    between: Link
    gpus_per_node: int = 8
    gpus_per_port: float = 1.0


@dataclass(frozen=True)
class _Level:
    ranks: int
    bandwidth: float
    all_reduce_bandwidth: float
    half_bytes: float


def seconds(op: str, nbytes: float, ranks: int, stride: int, network: Network) -> float:
    """Time of one collective.

    Args:
        op: As in `stoker.plan.trace.log.Collective`.
        nbytes: Bytes of the whole.
        ranks: Ranks that take part.
        stride: Distance between neighbours of the group, in global ranks.
        network: What joins them.

    The volume of each algorithm is that of nccl-tests (doc/PERFORMANCE.md): an all-reduce moves
    `2 (n-1)/n` of the whole, a gather or scatter `(n-1)/n`. Over nodes NCCL works on two levels at once, inside the
    node on the whole and between the nodes on each GPU's share: the slower one counts.
    """
    if ranks <= 1:
        return 0.0
    if op in ("send", "recv"):
        local = stride < network.gpus_per_node
        link, level = (
            (network.node, _node_level(2, network)) if local else (network.between, _between_level(2, network))
        )
        return link.latency + nbytes / _effective(level.bandwidth, nbytes, level.half_bytes)
    inside = max(1, min(ranks, network.gpus_per_node // max(1, stride)))
    nodes = math.ceil(ranks / inside)
    # groups that lie across nodes side by side share the ports of the node: each has one port per rank
    times = [
        _volume_seconds(op, nbytes, _node_level(inside, network)) if inside > 1 else 0.0,
        _volume_seconds(op, nbytes / inside, _between_level(nodes, network)) if nodes > 1 else 0.0,
    ]
    return _latency(op, ranks, nodes, network) + max(times)


def _node_level(ranks: int, network: Network) -> _Level:
    link = network.node
    return _Level(ranks, link.bandwidth, link.all_reduce_bandwidth, link.half_bytes)


def _between_level(ranks: int, network: Network) -> _Level:
    link, shared = network.between, network.gpus_per_port
    bandwidth = link.bandwidth / shared
    return _Level(ranks, bandwidth, bandwidth, link.half_bytes)


def _volume_seconds(op: str, nbytes: float, level: _Level) -> float:
    n = level.ranks
    if op == "all_reduce":
        # the switch adds up for more than four ranks (NVLS); below, a ring
        bandwidth = level.all_reduce_bandwidth if n > 4 else level.bandwidth
        volume = 2 * (n - 1) / n * nbytes
    elif op == "broadcast":
        bandwidth, volume = level.bandwidth, nbytes
    else:
        bandwidth, volume = level.bandwidth, (n - 1) / n * nbytes
    return volume / _effective(bandwidth, nbytes, level.half_bytes)


def _latency(op: str, ranks: int, nodes: int, network: Network) -> float:
    """Latency of the steps that follow each other, as NCCL's own model counts them (src/graph/tuning.cc).

    A ring goes from rank to rank, of which one step per node leaves it. An all-reduce goes round twice, or up and
    down a tree of nodes with a chain inside each, whichever is sooner; gathers and scatters have only the ring.
    """
    inside, between = network.node.latency, network.between.latency
    ring = (ranks - nodes) * inside + (nodes - 1) * between
    if op != "all_reduce":
        return ring
    return 2 * min(ring, (math.ceil(ranks / nodes) - 1) * inside + math.ceil(math.log2(nodes)) * between)


def _effective(bandwidth: float, nbytes: float, half: float) -> float:
    """Bandwidth at a message size: half of it up to `half` bytes, then ever more.

    Smaller messages go by protocols that need no full pipeline; what they take is latency.
    """
    return bandwidth * nbytes / (nbytes + min(half, nbytes))
