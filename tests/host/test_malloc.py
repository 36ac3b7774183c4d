from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.host.malloc import hand_back_freed_memory, keep_freed_memory

FAULTS = """
import ctypes, resource
from stoker.host.malloc import hand_back_freed_memory, keep_freed_memory
import torch

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        parts = [torch.ones(1 << 18) for _ in range(200)]  # 1 MiB each
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

# As glibc begins. Later it raises both by itself, and what lies on top of the heap decides whether it helps.
ctypes.CDLL(None).mallopt(-3, 128 << 10)
ctypes.CDLL(None).mallopt(-1, 128 << 10)
faults()
print(faults())
keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_blocks_that_are_freed_and_taken_again_cost_no_page_faults() -> None:
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    without, kept = map(int, ran.stdout.split())
    assert without > 1000
    assert kept < without / 100  # none at all, but for a block that finds its place taken by a smaller one


def test_memory_is_handed_back_when_training_is_over() -> None:
    keep_freed_memory()
    blocks = [bytearray(1 << 20) for _ in range(64)]
    del blocks
    held = resident()
    hand_back_freed_memory()
    assert resident() < held - 32 * 1024


def resident() -> int:
    """Memory of this process, in KiB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
