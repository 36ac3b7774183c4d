"""The PCIe link of each card: lanes, generation, errors, address windows."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, unsure, warn
from stoker.doctor.checks.lookup import PCI_LIST, architecture_of, describe, gpu_source, label
from stoker.host.probes.gpus import Gpu
from stoker.host.probes.pci import PciDevice, bridges_above
from stoker.host.snapshot import Snapshot

IDLE_STATES = ("P5", "P8", "P10", "P12", "P15")
"""Performance states in which the driver lowers the link's speed to save power."""


def _name(machine: Snapshot, card: PciDevice) -> str:
    """At the beginning of a sentence."""
    name = label(machine, card.address)
    return name[0].upper() + name[1:]


def _expected_width(machine: Snapshot, card: PciDevice) -> int | None:
    """Lanes that both ends of the link have."""
    above = next(bridges_above(machine.pci, card), None)
    slot = above.width_max if above else None
    return min(filter(None, (card.width_max, slot)), default=None)


@check("pcie-width", needs=("card",))
def pcie_width(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Lanes do not go down with load: fewer than both ends have is a fault of slot, riser or card."""
    judged = False
    for card in machine.pci.gpus():
        expected = _expected_width(machine, card)
        if card.width is None or expected is None:
            continue
        judged = True
        if card.width < expected:
            yield warn(
                "pcie-link-degraded",
                f"{_name(machine, card)} has {card.width} PCIe lanes of {expected}.",
                seen(f"{PCI_LIST}/{card.address}/current_link_width", str(card.width)),
                seen(f"{PCI_LIST}/{card.address}/max_link_width", str(card.width_max)),
                address=card.address,
            )
        elif card.width_max is not None and expected < card.width_max and expected < limits["least_lanes"]:
            yield info(
                "pcie-slot-narrow",
                f"{_name(machine, card)} sits in a slot of {expected} lanes and could use {card.width_max}.",
                seen(PCI_LIST, describe(card)),
            )
    if not judged:
        yield unsure("no card tells its PCIe lanes, as is usual in virtual machines")


@check("pcie-generation", needs=("gpu",))
def pcie_generation(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """At rest the link slows down by itself, so only a card under load can be judged."""
    idle = 0
    for gpu in machine.gpus.devices:
        if gpu.generation is None or gpu.generation_max is None or gpu.generation >= gpu.generation_max:
            continue
        if not _busy(gpu, limits):
            idle += 1
            continue
        yield warn(
            "pcie-link-degraded",
            f"{gpu.label} is busy and its link runs as PCIe {gpu.generation}, not {gpu.generation_max}.",
            seen(
                gpu_source(machine),
                f"{gpu.label}: Generation Max {gpu.generation_max}, Current {gpu.generation}, {gpu.performance_state}",
            ),
            address=gpu.bus_id,
        )
    if idle:
        yield fine(f"{idle} idle GPUs have slowed their links down, as they should; judge them again under load.")
    for gpu in machine.gpus.devices:
        slot, card = gpu.host_generation_max, gpu.device_generation_max
        if slot is not None and card is not None and slot < card:
            yield info(
                "pcie-slot-slow",
                f"{gpu.label} is a PCIe {card} card in a PCIe {slot} slot.",
                seen(gpu_source(machine), f"{gpu.label}: PCIe Generation, Device Max {card}, Host Max {slot}"),
            )


def _busy(gpu: Gpu, limits: Limits) -> bool:
    return (gpu.utilization or 0) >= limits["busy_percent"] and gpu.performance_state not in IDLE_STATES


@check("pcie-errors", needs=("card",))
def pcie_errors(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Errors that the link corrects cost time; many of them tell of a bad contact."""
    for card in machine.pci.gpus():
        if card.uncorrectable:
            yield fail(
                "pcie-link-degraded",
                f"{_name(machine, card)} had {card.uncorrectable} fatal PCIe errors since boot.",
                seen(f"{PCI_LIST}/{card.address}/aer_dev_fatal", f"TOTAL_ERR_FATAL {card.uncorrectable}"),
                address=card.address,
            )
        elif (card.correctable or 0) > limits["corrected"]:
            yield warn(
                "pcie-link-degraded",
                f"{_name(machine, card)} had {card.correctable} corrected PCIe errors since boot.",
                seen(f"{PCI_LIST}/{card.address}/aer_dev_correctable", f"TOTAL_ERR_COR {card.correctable}"),
                address=card.address,
            )
    for gpu in machine.gpus.devices:
        if (gpu.replays or 0) > limits["replays"]:
            yield warn(
                "pcie-link-degraded",
                f"{gpu.label} had to repeat {gpu.replays} PCIe packets.",
                seen(gpu_source(machine), f"{gpu.label}: Replays Since Reset: {gpu.replays}"),
                address=gpu.bus_id,
            )


@check("pci-windows", needs=("card",))
def pci_windows(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Without an address for its windows a card cannot be driven."""
    for card in machine.pci.gpus():
        if card.unassigned:
            yield fail(
                "pci-bar-allocation-failed",
                f"The firmware gave no address to window {card.unassigned[0]} of the GPU {card.address}.",
                seen(f"{PCI_LIST}/{card.address}/resource", f"window {card.unassigned[0]} is unset"),
            )
    mapped = [gpu for gpu in machine.gpus.devices if gpu.bar1_total_mib is not None]
    small = [gpu for gpu in mapped if (gpu.bar1_total_mib or 0) <= limits["small_mib"] and _could_resize(machine, gpu)]
    if small:
        size = f"{small[0].bar1_total_mib:.0f} MiB"
        yield info(
            "bar1-small",
            f"Only {size} of the memory of {len(small)} GPUs can be mapped at once (no resizable BAR).",
            seen(gpu_source(machine), f"{small[0].label}: BAR1 Memory Usage, Total: {size}"),
        )


def _could_resize(machine: Snapshot, gpu: Gpu) -> bool:
    """Cards from Ampere on have resizable windows; others have what they have."""
    return architecture_of(gpu, machine) not in ("Kepler", "Maxwell", "Pascal", "Volta", "Turing", "")
