"""Several machines side by side: where they differ, and which one is the odd one out. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stoker.doctor.told import finding_of
from stoker.finding import Evidence, Finding
from stoker.host.snapshot import Snapshot

UNSET = "not set"
CLOCK_SECONDS = 0.1
"""Clocks that are off by less than this are called right: more would show in logs that are put side by side."""


@dataclass(frozen=True)
class Difference:
    """Something in which machines differ.

    Attributes:
        what: Its name.
        values: What each machine has, by its name; unknown ones are left out.
        odd: The machines that differ from what most have; empty if no value is the rule.
    """

    what: str
    values: Mapping[str, str]
    odd: tuple[str, ...]

    def __str__(self) -> str:
        if not self.odd:
            return f"{self.what}: " + "; ".join(f"{name} has {value}" for name, value in self.values.items())
        usual = next(value for name, value in self.values.items() if name not in self.odd)
        shown = ", ".join(f"{name} has {self.values[name]}" for name in self.odd)
        return f"{self.what}: {shown}, the {len(self.values) - len(self.odd)} others have {usual}"


def facets(machine: Snapshot) -> Iterator[tuple[str, str]]:
    """What machines of one job should have in common, each with its value; what is unknown is left out."""
    yield from ((what, value) for what, read in _SINGLE.items() if (value := read(machine)))
    for environment in machine.python.environments[:1]:
        for package, version in sorted((environment.packages or {}).items()):
            if package.startswith(("nvidia-nccl", "nvidia-cudnn")) or package in ("torch", "deepspeed", "flash-attn"):
                yield f"package {package}", version
    for port in machine.network.ports:
        speed = "" if port.rate is None else f" {port.rate:g} Gbit/s"
        yield f"RDMA port {port.label}", f"{port.layer} {port.state}{speed}"


_SINGLE: Mapping[str, Callable[[Snapshot], str]] = {
    "operating system": lambda one: one.system.os_name,
    "kernel": lambda one: one.system.kernel,
    "machine": lambda one: one.system.product,
    "driver": lambda one: one.driver.loaded,
    "kernel module": lambda one: one.driver.flavour,
    "fabric manager": lambda one: one.services.fabric_manager,
    "IOMMU on the kernel command line": lambda one: _iommu(one.system.cmdline),
    "GPUs": lambda one: _counted(gpu.name for gpu in one.gpus.devices),
    "GPU firmware (VBIOS)": lambda one: _counted(gpu.vbios for gpu in one.gpus.devices),
    "PCIe width of the GPUs": lambda one: _counted(_text(gpu.width, "x") for gpu in one.gpus.devices),
    "GPU maximum clock": lambda one: _counted(_text(gpu.clock_sm_max_mhz, "", " MHz") for gpu in one.gpus.devices),
    "GPU power limit": lambda one: _counted(_text(gpu.power_limit_w, "", " W") for gpu in one.gpus.devices),
    "ECC": lambda one: _counted("on" if gpu.ecc else "off" for gpu in one.gpus.devices if gpu.ecc is not None),
    "links between GPUs": lambda one: _links(one),
    "NVLinks": lambda one: str(len(one.links.nvlinks) or ""),
    "processor": lambda one: one.cpu.model,
    "cores": lambda one: _text(one.cpu.cores),
    "frequency governor": lambda one: one.cpu.governor,
    "memory": lambda one: "" if one.memory.total is None else f"{one.memory.total / 2**30:.0f} GiB",
    "clock": lambda one: _clock(one),
    "MTU of interfaces that are up": lambda one: _counted(_text(card.mtu) for card in one.network.usable()),
    "speed of interfaces that are up": lambda one: _counted(
        _text(card.speed, "", " Mbit/s") for card in one.network.usable()
    ),
    "torch": lambda one: next((env.torch for env in one.python.environments if env.torch), ""),
}  # fmt: skip


def _text(value: float | None, before: str = "", after: str = "") -> str:
    return "" if value is None else f"{before}{value:g}{after}"


def _counted(values: Iterator[str]) -> str:
    """Values with how often each is there: `8 x NVIDIA H100`."""
    counts = Counter(value for value in values if value)
    return ", ".join(f"{count} x {value}" for value, count in sorted(counts.items()))


def _iommu(cmdline: str) -> str:
    words = [word for word in cmdline.split() if "iommu" in word or "pci=" in word]
    return " ".join(words) if words else "nothing" if cmdline else ""


def _links(machine: Snapshot) -> str:
    pairs = machine.links.topology.pairs() if machine.links.topology is not None else {}
    return _counted(iter(pairs.values()))


def _clock(machine: Snapshot) -> str:
    services = machine.services
    if services.clock_offset_s is not None and abs(services.clock_offset_s) >= CLOCK_SECONDS:
        return f"off by {services.clock_offset_s:g} s"
    return {True: "synchronised", False: "not synchronised", None: ""}[services.clock_synchronized]


def differences(machines: Mapping[str, Snapshot]) -> list[Difference]:
    """Where two or more machines, by their names, are known to differ."""
    tables = {name: dict(facets(machine)) | _settings(machine) for name, machine in machines.items()}
    settings = {what for machine in machines.values() for what in _settings(machine)}
    known = {name for name, machine in machines.items() if not machine.why_unknown("settings")}
    found: list[Difference] = []
    for what in dict.fromkeys(what for table in tables.values() for what in table):
        values = {name: table[what] for name, table in tables.items() if what in table}
        if what in settings:  # one that is not set is known not to be set
            values = {name: tables[name].get(what, UNSET) for name in machines if name in known}
        if len(set(values.values())) > 1:
            found.append(Difference(what, values, _odd(values)))
    return found


def _settings(machine: Snapshot) -> dict[str, str]:
    names = ("NCCL_", "UCX_", "GLOO_", "TORCH_NCCL_", "CUDA_DEVICE_MAX_CONNECTIONS", "PYTORCH_")
    return {one.name: one.value for one in reversed(machine.settings.beginning(*names))}


def _odd(values: Mapping[str, str]) -> tuple[str, ...]:
    """Those that do not have what more than half have, where that makes them few."""
    usual, count = Counter(values.values()).most_common(1)[0]
    return tuple(name for name, value in values.items() if value != usual) if 2 * count > len(values) else ()


def judge(found: Sequence[Difference], language: str) -> list[Finding]:
    """One finding for each odd machine, the oddest first, and one for differences without a rule."""
    by_machine: dict[str, list[Difference]] = {}
    for one in found:
        for name in one.odd:
            by_machine.setdefault(name, []).append(one)
    findings: list[Finding] = []
    for name, mine in sorted(by_machine.items(), key=lambda item: -len(item[1])):
        evidence = [Evidence(str(one), source=name) for one in mine]
        findings.append(finding_of("node-differs-from-the-others", 0.8, evidence, language))
    if split := [Evidence(str(one)) for one in found if not one.odd]:
        findings.append(finding_of("nodes-differ", 0.6, split, language))
    return findings
