"""Number formats: which one a device does well, and what it takes to train in it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Literal

import torch

from stoker.errors import UserError
from stoker.train import compat

Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16"]


@dataclass(frozen=True)
class Precision:
    """A chosen number format.

    Attributes:
        format: Its name.
        reason: Why it was taken, for the log.
        device_type: `cpu`, `cuda`, ...
    """

    format: Format
    reason: str
    device_type: str

    @property
    def model_dtype(self) -> torch.dtype | None:
        """What weights and inputs are converted to; None leaves them as they are."""
        return torch.float64 if self.format == "fp64" else None

    def autocast(self) -> AbstractContextManager[object]:
        """Context for the forward pass."""
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.format)
        return nullcontext() if dtype is None else torch.autocast(self.device_type, dtype=dtype)

    def make_scaler(self) -> torch.amp.GradScaler | None:
        """fp16 gradients underflow without a loss scale; the other formats need none."""
        return torch.amp.GradScaler(self.device_type) if self.format == "fp16" else None


def choose_precision(wanted: Literal["auto"] | Format, device: torch.device) -> Precision:
    """Settle the format and set torch's switches for it.

    Raises:
        UserError: The device cannot do what was asked for.
    """
    if wanted == "auto":
        found, reason = _best(device)
    else:
        found, reason = wanted, "as asked for"
        _refuse_impossible(wanted, device)
    compat.set_float32_precision("tf32" if found == "tf32" else "ieee")
    return Precision(found, reason, device.type)


def _best(device: torch.device) -> tuple[Format, str]:
    if device.type != "cuda":
        return best_format(device.type)
    bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    fp16 = torch.version.hip is None and torch.cuda.get_device_capability(device) >= (7, 0)
    return best_format("cuda", bf16=bf16, fp16=fp16)


def best_format(device_type: str, *, bf16: bool = False, fp16: bool = False) -> tuple[Format, str]:
    """What `auto` comes to, and why.

    Args:
        device_type: `cpu`, `cuda`, ...
        bf16: Whether the device has tensor cores for bf16.
        fp16: Whether it has them for fp16.
    """
    if device_type == "cpu":
        return "fp32", "the CPU computes it at full speed"
    if device_type != "cuda":
        return "fp32", f"nothing is known of {device_type} devices"
    if bf16:
        return "bf16", "this GPU has bf16 tensor cores, and bf16 needs no loss scale"
    if fp16:
        return "fp16", "this GPU has fp16 tensor cores but no bf16"
    return "fp32", "this GPU has no tensor cores"


def _refuse_impossible(wanted: Format, device: torch.device) -> None:
    if wanted == "tf32":
        has_it = device.type == "cuda" and torch.version.hip is None
        if not has_it or torch.cuda.get_device_capability(device) < (8, 0):
            raise UserError("precision: tf32 needs an NVIDIA GPU since Ampere; write fp32, or auto")
    if wanted in ("bf16", "fp16") and not torch.amp.is_autocast_available(device.type):
        raise UserError(f"precision: {wanted} cannot be used on a {device.type} device; write fp32, or auto")
