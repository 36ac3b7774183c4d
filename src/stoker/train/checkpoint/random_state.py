"""The state of every generator that a model may draw from, as tensors."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

_NONE = float("nan")


def take_random_state(device: torch.device) -> dict[str, Tensor]:
    """State of torch's generators (CPU and device), Python's and numpy's."""
    _, words, gauss = random.getstate()
    numpy_state: Any = np.random.get_state(legacy=False)
    numpy_words = numpy_state["state"]
    state = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor(words, dtype=torch.int64),
        "python_gauss": torch.tensor(_NONE if gauss is None else gauss, dtype=torch.float64),
        "numpy": torch.tensor([*numpy_words["key"].tolist(), numpy_words["pos"], numpy_state["has_gauss"]]),
        "numpy_gauss": torch.tensor(numpy_state["gauss"], dtype=torch.float64),
    }
    if device.type != "cpu":
        state["device"] = torch.get_device_module(device).get_rng_state(device)
    return state


def restore_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    """Set all generators back."""
    torch.set_rng_state(state["torch"])
    gauss = float(state["python_gauss"])
    random.setstate((3, tuple(state["python"].tolist()), None if gauss != gauss else gauss))
    *key, position, has_gauss = state["numpy"].tolist()
    np.random.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": np.array(key, dtype=np.uint32), "pos": position},
            "has_gauss": has_gauss,
            "gauss": float(state["numpy_gauss"]),
        }
    )
    if device.type != "cpu" and "device" in state:
        torch.get_device_module(device).set_rng_state(state["device"], device)


def seed_everything(seed: int) -> None:
    """Seed all generators of this process."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
