"""Processors, NUMA nodes, what this process may use of them, and settings that cost speed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, cpu_list, integer, matching, text_of
from stoker.host.source import Source


@dataclass(frozen=True)
class NumaNode:
    """A NUMA node: its CPUs as a list, its memory in bytes."""

    node: int
    cpus: str
    memory: int | None = None


@dataclass(frozen=True)
class Cpu:
    """Processors.

    Attributes:
        sockets: Physical packages; `cores` real cores of the machine, `threads` logical CPUs online.
        allowed: CPUs that this process may use, as a list; `allowed_nodes` memory nodes.
        quota: CPUs that the control group grants, such as 2.5; None if it sets no limit.
        governor: Frequency governor of CPU 0; empty where there is none, as in virtual machines.
        numa_balancing: Whether the kernel moves memory between nodes by itself.
        huge_pages: Transparent huge pages: `always`, `madvise`, `never`.
    """

    model: str = ""
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    nodes: tuple[NumaNode, ...] = ()
    allowed: str = ""
    allowed_nodes: str = ""
    quota: float | None = None
    governor: str = ""
    numa_balancing: bool | None = None
    huge_pages: str = ""


def read(source: Source, notes: Notes) -> Cpu:
    """Read the section."""
    model, sockets, cores, threads = parse_cpuinfo(notes.take("model", source.read("/proc/cpuinfo")) or "")
    status = notes.take("allowed", source.read("/proc/self/status")) or ""
    balancing = text_of(source.read("/proc/sys/kernel/numa_balancing")).strip()
    return Cpu(
        model,
        sockets,
        cores,
        threads,
        _nodes(source, notes),
        _status(status, "Cpus_allowed_list"),
        _status(status, "Mems_allowed_list"),
        _quota(source),
        text_of(source.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")).strip(),
        balancing not in ("0", "") if balancing else None,
        _bracketed(text_of(source.read("/sys/kernel/mm/transparent_hugepage/enabled"))),
    )


def parse_cpuinfo(text: str) -> tuple[str, int | None, int | None, int | None]:
    """Model, sockets, cores and threads in /proc/cpuinfo; Arm's has no model and no cores."""
    threads = len(re.findall(r"^processor\s*:", text, re.MULTILINE))
    model = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    seen: set[tuple[str, str]] = set()
    for block in text.split("\n\n"):
        package = re.search(r"^physical id\s*:\s*(\d+)", block, re.MULTILINE)
        core = re.search(r"^core id\s*:\s*(\d+)", block, re.MULTILINE)
        if package and core:
            seen.add((package[1], core[1]))
    sockets = len({package for package, _ in seen}) or None
    return model[1].strip() if model else "", sockets, len(seen) or None, threads or None


def _nodes(source: Source, notes: Notes) -> tuple[NumaNode, ...]:
    folder = "/sys/devices/system/node"
    names = notes.take("nodes", source.names(folder)) or ()
    nodes: list[NumaNode] = []
    for name in matching(names, r"node\d{1,4}"):
        cpus = text_of(source.read(f"{folder}/{name}/cpulist")).strip()
        memory = re.search(r"MemTotal:\s+(\d{1,15}) kB", text_of(source.read(f"{folder}/{name}/meminfo")))
        nodes.append(NumaNode(int(name[4:]), cpus, int(memory[1]) * 1024 if memory else None))
    return tuple(sorted(nodes, key=lambda node: node.node))


def node_of(nodes: tuple[NumaNode, ...], cpu: int) -> int | None:
    """The node of a CPU."""
    return next((node.node for node in nodes if cpu in (cpu_list(node.cpus) or ())), None)


def _status(text: str, key: str) -> str:
    match = re.search(rf"^{key}:\s*(\S+)", text, re.MULTILINE)
    return match[1] if match else ""


def _bracketed(text: str) -> str:
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else ""


def quota_of(cpu_max: str) -> float | None:
    """CPUs granted by cgroup v2's cpu.max, such as `250000 100000`; None for `max`."""
    words = cpu_max.split()
    if len(words) != 2 or words[0] == "max":
        return None
    quota, period = integer(words[0]), integer(words[1])
    return quota / period if quota is not None and period else None


def _quota(source: Source) -> float | None:
    found = quota_of(text_of(source.read("/sys/fs/cgroup/cpu.max")))
    if found is not None:
        return found
    quota = text_of(source.read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us")).strip()
    period = text_of(source.read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")).strip()
    return None if quota.startswith("-") else quota_of(f"{quota} {period}")


def cores_allowed(cpu: Cpu) -> int | None:
    """How many logical CPUs this process may use, its quota aside."""
    allowed = cpu_list(cpu.allowed)
    return len(allowed) if allowed is not None else None
