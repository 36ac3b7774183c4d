"""Keeps the memory of freed CPU tensors in the process.

A training step frees what it allocated, and the next one allocates the same again. glibc hands large free
blocks back to the kernel in between, which then clears every page anew: thousands of page faults a step, up to
a third of a small model's time on the CPU. mallopt(3) tells it to keep them.
"""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # parameter numbers in glibc's malloc.h
_LARGEST_TRIM = (1 << 31) - 1  # bytes; mallopt takes an int
_LARGEST_MMAP = 32 << 20  # bytes; glibc's DEFAULT_MMAP_THRESHOLD_MAX on 64-bit machines refuses more


def keep_freed_memory() -> bool:
    """Let freed blocks of up to 32 MiB be used again by this process instead of being handed back.

    Returns:
        Whether the C library took it; others than glibc do not.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, _LARGEST_TRIM)) and bool(mallopt(_MMAP_THRESHOLD, _LARGEST_MMAP))


def hand_back_freed_memory() -> None:
    """Return what is free at this moment: a program that trains and then does something else needs no reserve."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
