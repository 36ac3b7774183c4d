"""Which network interfaces NCCL chose, and whether others can reach their addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

_ENTRY = re.compile(r"\[\d+\]([A-Za-z][\w.@-]*):([0-9a-f.:]+)")
_VIRTUAL = re.compile(
    r"^(?:docker|br-[0-9a-f]|veth|virbr|cni|flannel|cali|lxc|lxdbr|podman|vnet|tap|tun|cilium|nerdctl)"
)
_UNROUTABLE = re.compile(r"^(?:169\.254\.|127\.)")


def judge_interfaces(facts: Facts) -> Iterator[Verdict]:
    """Bridges of containers, link-local helpers, and bootstrap addresses that peers cannot reach."""
    listed = [(hit, name, address) for hit in facts.hits("nccl_interface") for name, address in _entries(hit)]
    bootstrap = [(hit, hit["name"], hit["address"]) for hit in facts.hits("nccl_bootstrap")]
    failed = facts.hits("nccl_connect_failure", "connect_failure")
    if facts.has("service_mesh"):
        return
    virtual = [hit for hit, name, _ in listed + bootstrap if _VIRTUAL.match(name)]
    if virtual:
        weight = 0.92 if failed else 0.75 if _spans_nodes(facts, listed + bootstrap) else 0.0
        if not failed and any(_VIRTUAL.match(name) for _, name, _ in bootstrap):
            weight = max(weight, 0.7)  # the first of the list: others were not even found
        yield verdict("nccl-uses-docker-bridge-interfaces", weight, virtual, failed[:1])
    local = [hit for hit, _, address in listed + bootstrap if _UNROUTABLE.match(address)]
    other = [hit for hit, _, address in listed if not _UNROUTABLE.match(address)]
    loopback_only = all("127." in hit.text for hit in local)
    if local and (failed or other) and not (loopback_only and not failed):
        yield verdict("nccl-picks-unreachable-interface", 0.85 if other or failed else 0.6, local, failed[:1])
    yield from _unreachable_bootstrap(facts, bootstrap, failed)


def _spans_nodes(facts: Facts, seen: list[tuple[Hit, str, str]]) -> bool:
    """Bridges do no harm as long as all ranks are on one machine."""
    hosts = {hit.origin.host for hit, _, _ in seen if hit.origin.host}
    return len(hosts) > 1 or facts.has("several_nodes") or facts.said(r"nodes|servers|machines|hosts|multi.?node")


def _entries(hit: Hit) -> list[tuple[str, str]]:
    return _ENTRY.findall(hit.text) or [(hit["name"], hit["address"])]


def _unreachable_bootstrap(facts: Facts, bootstrap: list[tuple[Hit, str, str]], failed: list[Hit]) -> Iterator[Verdict]:
    """A connection in the network of the bootstrap interface failed for want of a route or an answer."""
    hard = [
        hit
        for hit in failed
        if re.search(
            r"No route to host|Network is unreachable|Connect to \S+ failed|timed out",
            hit.text,
        )
    ]
    for hit, name, address in bootstrap:
        network = address.rsplit(".", 2)[0] + "."
        aimed = [line for line in hard if network in line.text and line.line != hit.line]
        infiniband = name.startswith("ib")
        if aimed or (hard and infiniband):
            yield verdict("nccl-picks-unreachable-interface", 0.9 if aimed else 0.75, [hit], aimed or hard[:2])
            return
    if (
        hard
        and not bootstrap
        and any(
            re.search(r"[Bb]ootstrap|socketStartConnect|socketPollConnect|Call to connect", hit.text) for hit in hard
        )
    ):
        yield verdict("nccl-picks-unreachable-interface", 0.6, hard)
    elif hard and facts.said(r"ipoib|\bib\w*\d|interface|unreachable"):
        yield verdict("nccl-picks-unreachable-interface", 0.75, hard, context=facts.context)
