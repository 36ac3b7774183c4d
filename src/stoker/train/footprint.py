"""How much memory a rank needed at most, as the device or the system counts it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Footprint:
    """The most memory that was needed since `start_counting`.

    Attributes:
        kind: `reserved` by the caching allocator of a GPU, or `resident` in the host's memory (CPU).
        peak_bytes: On the rank that needed most.
    """

    kind: Literal["reserved", "resident"]
    peak_bytes: int


def start_counting(device: torch.device) -> None:
    """Forget what was needed before, as far as the device or the system lets us."""
    if device.type == "cpu":
        with contextlib.suppress(OSError):
            (PROCESS / "clear_refs").write_text("5")  # proc(5): resets the peak
        return
    module = torch.get_device_module(device)
    if hasattr(module, "reset_peak_memory_stats"):
        module.reset_peak_memory_stats(device)


def footprint(device: torch.device) -> Footprint | None:
    """Of this process so far; None where nobody counts."""
    if device.type == "cpu":
        peak = peak_resident(PROCESS / "status")
        return None if peak is None else Footprint("resident", peak)
    module = torch.get_device_module(device)
    if not hasattr(module, "max_memory_reserved"):
        return None
    return Footprint("reserved", int(module.max_memory_reserved(device)))


def peak_resident(status: Path) -> int | None:
    """Most physical memory of a process in bytes: VmHWM of proc(5); None where the system does not say.

    The `ru_maxrss` of getrusage(2) would not do: a process inherits it from the one that started it.
    """
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 if found else None
