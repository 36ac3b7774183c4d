"""How many devices there are, asked without starting to use one."""

from __future__ import annotations

import torch


def device_count() -> int:
    """Accelerators on this machine; 0 if it has none."""
    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0
