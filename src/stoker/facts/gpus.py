"""GPUs: their figures, and recognising one by the name that a tool prints or by its PCI id."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Literal

from stoker.errors import UserError
from stoker.facts.drivers import Confidence
from stoker.facts.names import Named, did_you_mean, listed, meant, tokens
from stoker.facts.reader import Words, load

Vendor = Literal["NVIDIA", "AMD"]


@dataclass(frozen=True)
class Gpu:
    """One GPU model: a row of gpus.csv. Figures are per device that the driver shows.

    A board can hold several devices (K80, A16, MI250X). A rate of 0 means that the hardware lacks the format,
    None that the figure is unknown.

    Attributes:
        printed_names: Names that nvidia-smi prints for it, where they differ from the model.
        capability: Compute capability (`8.0`), or the gfx name of AMD (`gfx942`).
        memory_gb: Marketing figure, 10^9 bytes; the driver shows a little less.
        memory_bandwidth_gb_s: Theory, GB/s.
        fp32_tflops: Vector rate. The other rates are those of the tensor (matrix) cores, dense, accumulated
            in FP32; `fp16_acc16_tflops` is accumulated in FP16. In TFLOP/s.
        int8_tops: Dense, TOP/s.
        board_power_w: Of the whole board, W.
        peer_link: `none`, or the name of the link between GPUs, such as `NVLink 4`.
        peer_link_bridge: Whether the link needs a bridge that is bought separately.
        peer_link_gb_s: Both directions together, all links of the device, GB/s.
        max_temp_c: Highest operating temperature, degrees Celsius.
        p2p_over_pcie: Whether the stock driver lets GPUs read each other over PCIe.
        host_platform: `aarch64` for cards that exist on Arm hosts only.
        open_modules: `required` where the product needs the open kernel modules although its capability does
            not.
    """

    vendor: Vendor
    model: str
    printed_names: Words
    capability: str
    architecture: str
    chip: str
    pci_device_ids: Words
    devices_per_board: int
    memory_gb: float | None
    memory_type: str
    memory_bandwidth_gb_s: float | None
    tensor_cores: bool
    fp32_tflops: float | None
    tf32_tflops: float | None
    fp16_tflops: float | None
    fp16_acc16_tflops: float | None
    bf16_tflops: float | None
    fp8_tflops: float | None
    fp4_tflops: float | None
    int8_tops: float | None
    board_power_w: float | None
    pcie_gen: int | None
    pcie_lanes: int | None
    peer_link: str
    peer_link_bridge: bool
    peer_link_gb_s: float | None
    form_factor: str
    max_temp_c: float | None
    slowdown_temp_c: float | None
    p2p_over_pcie: bool | None
    ecc: bool | None
    mig_max_instances: int | None
    host_platform: Literal["aarch64", ""]
    open_modules: Literal["required", ""]
    confidence: Confidence
    source: str
    notes: str


@dataclass(frozen=True)
class PciDevice:
    """One PCI device id: a row of pci_ids.csv."""

    vendor_id: str
    device_id: str
    name: str
    chip: str
    architecture: str
    capability: str
    mobile: bool
    source: str

    @property
    def vendor(self) -> Vendor:
        """Who made it."""
        return "AMD" if self.vendor_id == "1002" else "NVIDIA"


@dataclass(frozen=True)
class Device:
    """A recognised card: enough to choose versions for it, with its figures where gpus.csv has them.

    Attributes:
        gpus: The rows of gpus.csv it can be; several where the name or the id does not tell them apart.
    """

    name: str
    vendor: Vendor
    capability: str
    architecture: str
    source: str
    gpus: tuple[Gpu, ...] = ()

    @property
    def host_platform(self) -> str:
        """`aarch64` where the card exists on Arm hosts only, otherwise empty."""
        return self.gpus[0].host_platform if self.gpus else ""

    @property
    def needs_open_modules(self) -> bool:
        """Whether the product needs the open kernel modules whatever its capability says."""
        return any(gpu.open_modules == "required" for gpu in self.gpus)


def gpus() -> tuple[Gpu, ...]:
    """All GPU models."""
    return load("gpus.csv", Gpu)


@cache
def by_model() -> dict[str, Gpu]:
    """All GPU models by their name."""
    return {gpu.model: gpu for gpu in gpus()}


@cache
def pci_devices() -> dict[tuple[str, str], PciDevice]:
    """All PCI devices by (vendor id, device id), both in lower-case hex."""
    return {(row.vendor_id, row.device_id): row for row in load("pci_ids.csv", PciDevice)}


@cache
def names() -> dict[str, Named]:
    """The names of every model, and its memory's size and type, which may stand in them."""
    return {
        gpu.model: Named(
            names=(gpu.model, *gpu.printed_names),
            also=(gpu.memory_type, f"{gpu.memory_gb:g}GB" if gpu.memory_gb is not None else ""),
        )
        for gpu in gpus()
    }


def match_gpus(name: str) -> tuple[Gpu, ...]:
    """The models that `name` can mean, all equally good; none if it means no known one.

    Takes marketing names and what nvidia-smi prints: `NVIDIA H100 80GB HBM3`, `Tesla V100-SXM2-16GB`,
    `A100-SXM4-80GB`, `rtx4090`.
    """
    return tuple(by_model()[model] for model in meant(name, names()))


def find_gpu(name: str) -> Gpu:
    """The one model that `name` means.

    Raises:
        UserError: No model fits (with the nearest names), or several do (with their names).
    """
    found = match_gpus(name)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(f"{name!r} can be {listed(gpu.model for gpu in found)}: name one of them")
    raise UserError(f"no GPU is known as {name!r}{did_you_mean(name, by_model())}")


def find_pci(pci_id: str) -> PciDevice:
    """The device of a PCI id: `10de:2684`, `2684` (NVIDIA is meant) or `0x2684`.

    Raises:
        UserError: It is not an id, or pci_ids.csv has no such device.
    """
    match = re.fullmatch(r"(?:(10de|1002):)?(?:0x)?([0-9a-f]{4})", pci_id.strip().lower())
    if match is None:
        raise UserError(f"{pci_id!r} is not a PCI id: write vendor:device in hex, such as 10de:2684")
    device = pci_devices().get((match[1] or "10de", match[2]))
    if device is None:
        raise UserError(f"the PCI id {pci_id} is not a known GPU: see `stoker facts pci --filter {match[2][:3]}`")
    return device


def identify(text: str) -> Device:
    """The card behind a name, a PCI id or a bare capability.

    Names as sold or as printed; a capability as `8.6`, `sm_86` or `gfx942`.

    Raises:
        UserError: Nothing known fits, or the name fits cards of different capability.
    """
    text = text.strip()
    if re.fullmatch(r"((10de|1002):)?(0x)?(?=\w*\d)[0-9a-fA-F]{4}", text, re.IGNORECASE) and not match_gpus(text):
        return _device_of_pci(find_pci(text))
    if re.fullmatch(r"(10de|1002):.*", text, re.IGNORECASE):
        return _device_of_pci(find_pci(text))
    if match := re.fullmatch(r"(?:sm_)?(\d{1,2})\.?(\d)|(gfx\w+)", text):
        return _device_of_capability(match[3] or f"{match[1]}.{match[2]}")
    found = match_gpus(text)
    if len({gpu.capability for gpu in found}) > 1:
        raise UserError(f"{text!r} can be {listed(gpu.model for gpu in found)}: name one of them")
    if found:
        first = found[0]
        name = first.model if len(found) == 1 else text
        return Device(name, first.vendor, first.capability, first.architecture, "gpus.csv", found)
    return _device_of_pci_name(text)


def _device_of_pci(pci: PciDevice) -> Device:
    models = tuple(gpu for gpu in gpus() if gpu.vendor == pci.vendor and pci.device_id in gpu.pci_device_ids)
    return Device(pci.name, pci.vendor, pci.capability, pci.architecture, "pci_ids.csv", models)


def _device_of_capability(capability: str) -> Device:
    for row in pci_devices().values():
        if row.capability == capability:
            name = capability if row.vendor == "AMD" else f"compute capability {capability}"
            return Device(name, row.vendor, capability, row.architecture, "pci_ids.csv")
    raise UserError(f"no GPU of compute capability {capability} is known: see `stoker facts pci`")


def _device_of_pci_name(name: str) -> Device:
    """A card that has no row in gpus.csv but a name in pci_ids.csv, such as a GeForce GTX 980."""
    asked = tokens(name)
    extra = {
        pci: sum((words - asked).values())
        for pci in pci_devices().values()
        if asked and asked <= (words := tokens(pci.name))
    }
    best = [pci for pci, missing in extra.items() if missing == min(extra.values())]
    if len({pci.capability for pci in best}) > 1:
        raise UserError(f"{name!r} can be {listed(pci.name for pci in best)}: name one of them, or give its PCI id")
    if not best:
        known = [*by_model(), *(pci.name for pci in pci_devices().values())]
        raise UserError(f"no GPU is known as {name!r}{did_you_mean(name, known)}")
    return Device(best[0].name, best[0].vendor, best[0].capability, best[0].architecture, "pci_ids.csv")
