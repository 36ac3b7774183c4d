"""What the tables know of the machine's cards, for several checks."""

from __future__ import annotations

from stoker.facts.drivers import Capability, DriverBranch, capabilities, driver_branches
from stoker.facts.gpus import Gpu as Model
from stoker.facts.gpus import PciDevice as PciRow
from stoker.facts.gpus import gpus as models
from stoker.facts.gpus import match_gpus, pci_devices
from stoker.host.probes.driver import upstream
from stoker.host.probes.gpus import Gpu
from stoker.host.probes.pci import PciDevice
from stoker.host.snapshot import Snapshot

PCI_LIST = "sysfs: bus/pci/devices"
SMI = "nvidia-smi -q"


def gpu_source(snapshot: Snapshot) -> str:
    """What the fields of the GPUs were read with."""
    return SMI if "nvidia-smi" in snapshot.gpus.source else snapshot.gpus.source or SMI


def row_of(device: PciDevice) -> PciRow | None:
    """The row of pci_ids.csv of a card."""
    return pci_devices().get((device.vendor, device.device))


def name_of(device: PciDevice) -> str:
    """The card's name, or its PCI id if it is in no table."""
    row = row_of(device)
    return row.name if row else f"[{device.vendor}:{device.device}]"


def describe(device: PciDevice) -> str:
    """As lspci would print it: `0000:01:00.0 GeForce RTX 4090 [10de:2684]`."""
    row = row_of(device)
    return f"{device.address} {row.name if row else 'NVIDIA device'} [{device.vendor}:{device.device}]"


def capability_of(device: PciDevice) -> Capability | None:
    """What the card's compute capability needs of the driver."""
    row = row_of(device)
    return capabilities().get(row.capability) if row else None


def model_of(snapshot: Snapshot, gpu: Gpu) -> Model | None:
    """The row of gpus.csv of a GPU: by its PCI id, else by its name; None if that leaves several."""
    device = snapshot.pci.by_address().get(gpu.bus_id)
    if device is not None:
        rows = [row for row in models() if row.vendor == "NVIDIA" and device.device in row.pci_device_ids]
        if len(rows) == 1:
            return rows[0]
    rows = list(match_gpus(gpu.name)) if gpu.name else []
    return rows[0] if len(rows) == 1 else None


def is_geforce(gpu: Gpu) -> bool:
    """Whether it is a consumer card."""
    return gpu.brand.lower() == "geforce" or "geforce" in gpu.name.lower()


def driver_version(snapshot: Snapshot) -> str:
    """Of the module that runs; else of what is installed for it; else of the libraries; empty if there is none."""
    module = snapshot.modules.nvidia
    installed = [
        upstream(one.version) for one in snapshot.driver.packages if one.name.startswith(("nvidia", "libnvidia"))
    ]
    candidates = [
        snapshot.driver.loaded,
        module.version if module else "",
        *snapshot.driver.library_versions,
        *installed,
    ]
    return next((version for version in candidates if version), "")


def branch_of(version: str) -> DriverBranch | None:
    """The branch of a driver version; None if the tables have none."""
    number = version.partition(".")[0]
    return next((row for row in driver_branches() if str(row.branch) == number), None)


def label(snapshot: Snapshot, bus_id: str) -> str:
    """`GPU 3 (0000:3b:00.0)`, or only the address if it does not answer."""
    return next((gpu.label for gpu in snapshot.gpus.devices if gpu.bus_id == bus_id), f"the GPU {bus_id}")


def architecture_of(gpu: Gpu, snapshot: Snapshot) -> str:
    """Its architecture's name."""
    model = model_of(snapshot, gpu)
    return gpu.architecture or (model.architecture if model else "")


def bare_metal(snapshot: Snapshot) -> bool:
    """Whether the machine is known to be no virtual one."""
    return snapshot.system.virtualization == "none"
