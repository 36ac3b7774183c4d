"""Processors: what of them this process may use, and settings that cost speed."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, info, seen, warn
from stoker.doctor.checks.lookup import bare_metal
from stoker.host.probes.cpu import cores_allowed, node_of
from stoker.host.probing import cpu_list
from stoker.host.snapshot import Snapshot


@check("cpu-affinity", needs=("cpu.allowed",))
def cpu_affinity(machine: Snapshot) -> Iterator[Found]:
    """A process pinned to one CPU shares it with all its loader workers."""
    allowed, threads = cores_allowed(machine.cpu), machine.cpu.threads
    if allowed is None or not threads or allowed >= threads:
        return
    shows = seen("/proc/self/status", f"Cpus_allowed_list: {machine.cpu.allowed}")
    if allowed == 1:
        yield warn("process-pinned-to-one-core", f"This process may use 1 of {threads} CPUs.", shows)
    else:
        yield info("process-may-use-some-cpus", f"This process may use {allowed} of {threads} CPUs.", shows)


@check("cpu-quota", needs=("cpu.allowed",))
def cpu_quota(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Loader workers need CPUs: a control group can grant fewer than there are."""
    gpus = max(1, len(machine.gpus.devices))
    quota = machine.cpu.quota
    if quota is not None and quota < gpus * limits["per_gpu"]:
        yield warn(
            "num-workers-exceeds-cpus",
            f"The control group grants {quota:g} CPUs.",
            seen("/sys/fs/cgroup/cpu.max", f"{quota:g} CPUs"),
        )


@check("numa-affinity", needs=("gpu", "cpu.allowed"))
def numa_affinity(machine: Snapshot) -> Iterator[Found]:
    """CPUs of one node alone feed the cards of the other node over the link between them."""
    nodes = machine.cpu.nodes
    allowed = cpu_list(machine.cpu.allowed) or ()
    mine = {node_of(nodes, cpu) for cpu in allowed} - {None}
    cards = {card.numa for card in machine.pci.gpus()} - {None}
    if len(nodes) > 1 and mine and cards and not cards <= mine:
        yield info(
            "process-on-one-numa-node",
            f"This process may use CPUs of NUMA node {_list(mine)}, and there are GPUs at node {_list(cards - mine)}.",
            seen("/proc/self/status", f"Cpus_allowed_list: {machine.cpu.allowed}"),
        )


def _list(nodes: set[int | None]) -> str:
    return ", ".join(map(str, sorted(node for node in nodes if node is not None)))


@check("cpu-governor", needs=("cpu.model",))
def cpu_governor(machine: Snapshot) -> Iterator[Found]:
    """Launching kernels is single-threaded work: a processor that saves power delays it."""
    if machine.cpu.governor in ("powersave", "conservative") and bare_metal(machine) and machine.pci.gpus():
        yield info(
            "cpu-saves-power",
            f"The frequency governor is {machine.cpu.governor}.",
            seen("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", machine.cpu.governor),
        )


@check("numa-balancing", needs=("cpu.model",))
def numa_balancing(machine: Snapshot) -> Iterator[Found]:
    """The kernel's own moving of pages between nodes disturbs pinned transfers."""
    if machine.cpu.numa_balancing and len(machine.cpu.nodes) > 1 and machine.pci.gpus():
        yield info(
            "numa-balancing-on",
            "The kernel moves memory between NUMA nodes by itself.",
            seen("/proc/sys/kernel/numa_balancing", "1"),
        )
