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
    latency: float
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
    `2 (n-1)/n` of the whole, a gather or scatter `(n-1)/n`. Over nodes NCCL works in levels: inside the node
    on the whole, between the nodes on each GPU's share; the levels overlap but for the shorter's ramp.
    """
    if ranks <= 1:
        return 0.0
    if op in ("send", "recv"):
        local = stride < network.gpus_per_node
        level = _node_level(2, network) if local else _between_level(2, network)
        return level.latency + nbytes / _effective(level.bandwidth, nbytes, level.half_bytes)
    inside = max(1, min(ranks, network.gpus_per_node // max(1, stride)))
    nodes = math.ceil(ranks / inside)
    # groups that lie across nodes side by side share the ports of the node: each has one port per rank
    times = [
        _level_seconds(op, nbytes, _node_level(inside, network)) if inside > 1 else 0.0,
        _level_seconds(op, nbytes / inside, _between_level(nodes, network)) if nodes > 1 else 0.0,
    ]
    return max(times) + 0.25 * min(times)


def _node_level(ranks: int, network: Network) -> _Level:
    link = network.node
    return _Level(ranks, link.bandwidth, link.all_reduce_bandwidth, link.latency, link.half_bytes)


def _between_level(ranks: int, network: Network) -> _Level:
    link, shared = network.between, network.gpus_per_port
    bandwidth = link.bandwidth / shared
    return _Level(ranks, bandwidth, bandwidth, link.latency, link.half_bytes)


def _level_seconds(op: str, nbytes: float, level: _Level) -> float:
    n = level.ranks
    if op == "all_reduce":
        # the switch adds up for more than four ranks (NVLS); below, a ring
        bandwidth = level.all_reduce_bandwidth if n > 4 else level.bandwidth
        volume, hops = 2 * (n - 1) / n * nbytes, 2 * _hops(n)
    elif op == "broadcast":
        bandwidth, volume, hops = level.bandwidth, nbytes, _hops(n)
    else:
        bandwidth, volume, hops = level.bandwidth, (n - 1) / n * nbytes, _hops(n)
    return hops * level.latency + volume / _effective(bandwidth, nbytes, level.half_bytes)


def _hops(ranks: int) -> float:
    """Steps one after the other: a ring for few ranks, a tree's depth (or PAT's) for many."""
    return min(ranks - 1.0, 8.0 * math.log2(ranks))


def _effective(bandwidth: float, nbytes: float, half: float) -> float:
    """Bandwidth at a message size: half of it is reached at `half` bytes."""
    return bandwidth * nbytes / (nbytes + half)
