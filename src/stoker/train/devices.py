"""How many devices there are, asked without starting to use one."""

from __future__ import annotations

import torch


def device_count() -> int:
    """Accelerators on this machine; 0 if it has none."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def device_name(device: torch.device) -> str:
    """What the maker calls a device, such as `NVIDIA H100 80GB HBM3`."""
    return "CPU" if device.type == "cpu" else str(torch.get_device_module(device).get_device_name(device))
