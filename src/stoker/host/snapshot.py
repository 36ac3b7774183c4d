"""The Snapshot: all that was read of a machine, and why the rest is unknown.

Typed, versioned, written as JSON and read back. Each section is a dataclass of its probe's file.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoker.errors import UserError
from stoker.host.plain import from_plain, to_plain
from stoker.host.probes import (
    bmc,
    boot,
    container,
    cpu,
    disks,
    driver,
    gpus,
    kernel_log,
    links,
    memory,
    modules,
    network,
    pci,
    processes,
    python,
    services,
    settings,
    slurm,
    system,
    upgrades,
)
from stoker.host.probing import Notes
from stoker.host.source import Source

VERSION = 1
"""Of the format. It goes up when a field changes its meaning, not when one is added."""
SECONDS = 60.0
"""After this long a probe that still waits is given up. Commands have shorter limits of their own."""


@dataclass(frozen=True)
class Snapshot:
    """A machine.

    Attributes:
        version: Of the format.
        taken: When it was read, ISO 8601; empty if that is not known.
        unknown: Why something is unknown, by section (`gpus`) or by field (`driver.packages`). What is not named
            here is known, also where it is empty.
        seconds: How long each probe took.
    """

    version: int = VERSION
    taken: str = ""
    system: system.System = field(default_factory=system.System)
    secure_boot: boot.SecureBoot = field(default_factory=boot.SecureBoot)
    dkms: boot.Dkms = field(default_factory=boot.Dkms)
    modules: modules.Modules = field(default_factory=modules.Modules)
    driver: driver.Driver = field(default_factory=driver.Driver)
    upgrades: upgrades.Upgrades = field(default_factory=upgrades.Upgrades)
    pci: pci.Pci = field(default_factory=pci.Pci)
    gpus: gpus.Gpus = field(default_factory=gpus.Gpus)
    links: links.Links = field(default_factory=links.Links)
    services: services.Services = field(default_factory=services.Services)
    kernel_log: kernel_log.KernelLog = field(default_factory=kernel_log.KernelLog)
    processes: processes.Processes = field(default_factory=processes.Processes)
    cpu: cpu.Cpu = field(default_factory=cpu.Cpu)
    memory: memory.Memory = field(default_factory=memory.Memory)
    disks: disks.Disks = field(default_factory=disks.Disks)
    network: network.Network = field(default_factory=network.Network)
    container: container.Container = field(default_factory=container.Container)
    slurm: slurm.Slurm = field(default_factory=slurm.Slurm)
    python: python.Python = field(default_factory=python.Python)
    settings: settings.Settings = field(default_factory=settings.Settings)
    bmc: bmc.Bmc = field(default_factory=bmc.Bmc)
    unknown: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    def why_unknown(self, path: str) -> str:
        """Why `section` or `section.field` is unknown; empty if it is known."""
        section = path.partition(".")[0]
        return self.unknown.get(path, "") or self.unknown.get(section, "")

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(to_plain(self), indent=1, ensure_ascii=False) + "\n"


PROBES: Mapping[str, Callable[[Source, Notes], Any]] = {
    "system": system.read,
    "secure_boot": boot.read_secure_boot,
    "dkms": boot.read_dkms,
    "modules": modules.read,
    "driver": driver.read,
    "upgrades": upgrades.read,
    "pci": pci.read,
    "gpus": gpus.read,
    "links": links.read,
    "services": services.read,
    "kernel_log": kernel_log.read,
    "processes": processes.read,
    "cpu": cpu.read,
    "memory": memory.read,
    "disks": disks.read,
    "network": network.read,
    "container": container.read,
    "slurm": slurm.read,
    "python": python.read,
    "settings": settings.read,
    "bmc": bmc.read,
}
"""What reads each section of the snapshot."""


def read_snapshot(source: Source, *, seconds: float = SECONDS) -> Snapshot:
    """Read everything, each probe in a thread of its own, and give up those that still wait after `seconds`."""
    jobs = {name: _Job(name, probe, source) for name, probe in PROBES.items()}
    for job in jobs.values():
        job.start()
    end = time.monotonic() + seconds
    for job in jobs.values():
        job.join(max(0.0, end - time.monotonic()))
    sections: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, job in jobs.items():
        if job.is_alive():
            unknown[name] = f"the probe did not answer within {seconds:g} s"
            continue
        if job.section is not None:
            sections[name] = job.section
        unknown |= {f"{name}.{key}" if key else name: reason for key, reason in sorted(job.notes.unknown.items())}
    took = {name: round(job.seconds, 3) for name, job in jobs.items()}
    return Snapshot(taken=source.taken(), unknown=unknown, seconds=took, **sections)


class _Job(threading.Thread):
    """One probe. A daemon, since a read inside a sick driver may never come back."""

    def __init__(self, name: str, probe: Callable[[Source, Notes], Any], source: Source) -> None:
        super().__init__(name=f"probe-{name}", daemon=True)
        self.notes = Notes()
        self.section: Any = None
        self.seconds = 0.0
        self._probe, self._source = probe, source

    def run(self) -> None:
        began = time.monotonic()
        try:
            self.section = self._probe(self._source, self.notes)
        except Exception as error:  # one probe that meets what nobody foresaw must not hide the others
            self.notes.note("", f"the probe failed: {type(error).__name__}: {error}")
        self.seconds = time.monotonic() - began


def snapshot_from_json(text: str, name: str = "snapshot") -> Snapshot:
    """Read a snapshot again.

    Raises:
        UserError: It is none, or of a newer format.
    """
    try:
        content = json.loads(text)
        version = content.get("version") if isinstance(content, dict) else None
        if not isinstance(version, int) or "system" not in content:
            raise UserError(f"{name}: this is no snapshot of a machine: make one with `stoker doctor snapshot`")
        if version > VERSION:
            raise UserError(f"{name}: written in format {version}, and this stoker knows {VERSION}: use a newer stoker")
        return from_plain(Snapshot, content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{name}: this is no snapshot of a machine: {error}") from None
