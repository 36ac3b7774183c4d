"""NVSwitch fabrics: the Fabric Manager, its version, the state of each card's registration, IMEX."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, check, fail, fine, seen, unsure, warn
from stoker.doctor.checks.lookup import PCI_LIST, gpu_source
from stoker.host.probes.gpus import Gpu
from stoker.host.snapshot import Snapshot

UNIT = "nvidia-fabricmanager"


def has_nvswitch(machine: Snapshot) -> bool:
    """Whether the cards are joined by NVSwitches: then, and only then, a Fabric Manager is needed.

    NVSwitches of the Blackwell generation are no PCI devices of the server; their cards report a fabric state.
    """
    return bool(machine.pci.of("nvswitch")) or any(gpu.fabric_state for gpu in machine.gpus.devices)


@check("fabric-manager", needs=("card",))
def fabric_manager(machine: Snapshot) -> Iterator[Found]:
    """It must run where there are NVSwitches, and has nothing to do elsewhere.

    In a virtual machine that was given GPUs but no switches it runs on the host; `fabric-state` says what it did.
    """
    units = machine.services.units
    unit = units.get(UNIT) if units else None
    switches = machine.pci.of("nvswitch")
    if not switches:
        if unit and unit.active == "failed" and not has_nvswitch(machine):
            yield warn(
                "fabric-manager-needless",
                "The Fabric Manager is installed and fails, since there is no NVSwitch here.",
                seen(f"systemctl show {UNIT}", f"ActiveState={unit.active}"),
            )
        else:
            yield fine("There is no NVSwitch here, so no Fabric Manager is needed.")
    elif units is None:
        host = "the Fabric Manager runs on the host, which cannot be seen from here"
        yield unsure(host if machine.container.kind else machine.why_unknown("services.units"))
    elif unit is None or unit.active != "active":
        state = "not found" if unit is None else f"ActiveState={unit.active} Result={unit.result}"
        yield fail(
            "fabric-manager-not-running",
            f"There are NVSwitches, and the Fabric Manager is {'not installed' if unit is None else unit.active}.",
            seen(f"systemctl show {UNIT}", state),
            seen(PCI_LIST, f"{switches[0].address} NVSwitch [{switches[0].vendor}:{switches[0].device}]"),
            branch=machine.driver.loaded.partition(".")[0],
        )


@check("fabric-manager-version", needs=("card", "driver.loaded"))
def fabric_manager_version(machine: Snapshot) -> Iterator[Found]:
    """It refuses to work with a driver of another version."""
    version = machine.services.fabric_manager
    if not has_nvswitch(machine) or not version or not machine.driver.loaded:
        yield fine("There is no Fabric Manager whose version could differ from the driver's.")
    elif version != machine.driver.loaded:
        yield fail(
            "fabric-manager-version-mismatch",
            f"The Fabric Manager is {version}, the driver {machine.driver.loaded}.",
            seen("nv-fabricmanager --version", version),
            seen("/proc/driver/nvidia/version", machine.driver.loaded_line),
            version=machine.driver.loaded,
        )


@check("fabric-state", needs=("gpu",))
def fabric_state(machine: Snapshot) -> Iterator[Found]:
    """Each card must have joined the fabric: until then CUDA says that the system is not yet initialised."""
    known = [gpu for gpu in machine.gpus.devices if gpu.fabric_state]
    if not known:
        yield fine("No card here is part of an NVSwitch fabric, or its driver does not report it.")
        return
    out = [gpu for gpu in known if gpu.fabric_state != "Completed" or gpu.fabric_status not in ("Success", "")]
    if out:
        yield fail(
            "fabric-manager-not-running",
            f"{len(out)} of {len(known)} GPUs have not joined the NVSwitch fabric.",
            *(seen(gpu_source(machine), _fabric(gpu)) for gpu in out[:4]),
            branch=machine.driver.loaded.partition(".")[0],
        )


def _fabric(gpu: Gpu) -> str:
    return f"{gpu.label}: Fabric State {gpu.fabric_state}, Status {gpu.fabric_status}"


@check("imex", needs=("card", "services.units"))
def imex(machine: Snapshot) -> Iterator[Found]:
    """NVLink across machines needs the IMEX service."""
    unit = (machine.services.units or {}).get("nvidia-imex")
    if unit is None or unit.enabled not in ("enabled",):
        yield fine("The IMEX service is not in use here; only NVLink across machines needs it.")
    elif unit.active != "active":
        yield warn(
            "imex-not-running",
            f"The IMEX service is enabled and {unit.active}.",
            seen("systemctl show nvidia-imex", f"ActiveState={unit.active} Result={unit.result}"),
        )
