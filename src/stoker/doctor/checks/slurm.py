"""Slurm on this node."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, seen, warn
from stoker.facts.version import Version
from stoker.host.snapshot import Snapshot

_NONE = "Slurm is not installed here."


def _here(machine: Snapshot) -> bool:
    return bool(machine.slurm.version or machine.slurm.gres_path or machine.slurm.state)


@check("slurm-node", needs=())
def slurm_node(machine: Snapshot) -> Iterator[Found]:
    """A drained node gets no jobs, and Slurm says why."""
    if not _here(machine):
        yield fine(_NONE)
        return
    unit = (machine.services.units or {}).get("slurmd")
    if unit and unit.active not in ("active", "activating"):
        yield fail(
            "slurm-node-drained",
            f"slurmd is {unit.active}.",
            seen("systemctl show slurmd", f"ActiveState={unit.active} Result={unit.result}"),
        )
    elif any(word in machine.slurm.state for word in ("DRAIN", "DOWN", "FAIL", "INVALID")):
        reason = machine.slurm.reason
        cause = "slurm-gres-count-lower-than-configured" if "gres/gpu count" in reason.lower() else "slurm-node-drained"
        why = f": {reason}" if reason else ""
        yield fail(
            cause,
            f"Slurm gives this node no jobs{why}.",
            seen("scontrol show node", machine.slurm.node_line),
            *([seen("scontrol show node", f"Reason={reason}")] if reason else []),
        )


@check("slurm-gpus", needs=("gpu",))
def slurm_gpus(machine: Snapshot) -> Iterator[Found]:
    """slurm.conf, gres.conf and the machine must count the same GPUs."""
    slurm = machine.slurm
    if not _here(machine):
        yield fine(_NONE)
        return
    count = len(machine.gpus.devices)
    nodes = {node.path for node in machine.container.gpu_nodes()}
    for line in slurm.gres:
        lacking = [path for path in line.files if nodes and path not in nodes]
        if lacking:
            yield fail(
                "slurm-gres-device-file-missing",
                f"gres.conf names {lacking[0]}, which is not there.",
                seen(slurm.gres_path, line.line, line.number),
            )
    if slurm.configured is not None and slurm.configured > count:
        yield fail(
            "slurm-gres-count-lower-than-configured",
            f"slurm.conf promises {slurm.configured} GPUs, and {count} answer.",
            seen("slurm.conf", f"Gres=gpu:{slurm.configured}"),
        )


@check("slurm-cgroup", needs=())
def slurm_cgroup(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Cgroup version 2 needs Slurm 22.05; without device constraints jobs see each other's GPUs."""
    slurm = machine.slurm
    if not _here(machine):
        yield fine(_NONE)
        return
    first = f"{int(limits['major'])}.{int(limits['minor']):02d}"
    if machine.container.cgroup == 2 and slurm.version and Version(slurm.version) < Version(first):
        yield fail(
            "slurm-cgroup-v2-plugin-missing",
            f"This machine uses cgroup version 2, and Slurm {slurm.version} cannot.",
            seen("slurmd -V", slurm.version),
            seen("/proc/self/mounts", "cgroup2 on /sys/fs/cgroup"),
        )
    elif slurm.constrain_devices is False:
        yield warn(
            "slurm-devices-unconstrained",
            "Slurm does not keep jobs to their own GPUs.",
            seen("cgroup.conf", "ConstrainDevices is not yes"),
        )


@check("slurm-memlock", needs=("services.units",))
def slurm_memlock(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Jobs inherit slurmd's limit on locked memory, whatever limits.conf says."""
    unit = (machine.services.units or {}).get("slurmd")
    if unit is None or not machine.network.ports:
        yield fine("There is no slurmd with RDMA here.")
    elif unit.memlock is not None and 0 <= unit.memlock < limits["bytes"]:
        yield warn(
            "memlock-limit-too-low",
            f"slurmd's limit on locked memory is {unit.memlock} bytes.",
            seen("systemctl show slurmd", f"LimitMEMLOCK={unit.memlock}"),
        )
