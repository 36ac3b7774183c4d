"""The CUDA hooks object of libtorch: its answer to "has this device a context?" must be "no"."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import torch


class TraceUnavailableError(Exception):
    """This build of torch cannot trace a step on fake GPUs; the message says what failed."""


_kept_alive: list[Any] = []


def _primary_context_slot() -> int:
    """Position of `hasPrimaryContext` in the virtual table, read from the headers that torch ships.

    The Itanium C++ ABI (Linux on x86-64 and aarch64) lays virtual functions out in the order of their
    declaration, base class first, with two entries for the destructor.
    """
    header = Path(torch.__path__[0]) / "include" / "ATen" / "detail" / "AcceleratorHooksInterface.h"
    if not header.exists():
        raise TraceUnavailableError(f"the header {header.name} of torch is missing: its table cannot be read")
    slot = 0
    for declaration in re.finditer(r"virtual\s+([^;{]*)", header.read_text(encoding="utf-8")):
        if "~" in declaration[1]:
            slot += 2
        elif "hasPrimaryContext" in declaration[1]:
            return slot
        else:
            slot += 1
    raise TraceUnavailableError("hasPrimaryContext is no longer declared in AcceleratorHooksInterface.h")


def deny_primary_context() -> None:
    """Give the singleton of CUDA hooks a copied virtual table that denies a primary context.

    `GraphTask::stash_current_streams` asks every device that has a context for its stream; on a machine
    without a GPU the real function raises before it can say no.
    """
    library = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so"))
    get_hooks = library._ZN2at6detail12getCUDAHooksEv
    get_hooks.restype = ctypes.c_void_p
    address = get_hooks()
    table = ctypes.c_void_p.from_address(address).value
    if not table:
        raise TraceUnavailableError("the CUDA hooks of this torch build have no virtual table")
    before, after = 2, 48  # offset-to-top and typeinfo stand before the functions; more than any version has
    words = (ctypes.c_void_p * (before + after)).from_address(table - before * ctypes.sizeof(ctypes.c_void_p))
    copied = (ctypes.c_void_p * (before + after))(*words)
    deny = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda _self, _index: False)
    copied[before + _primary_context_slot()] = ctypes.cast(deny, ctypes.c_void_p).value
    _kept_alive.extend((copied, deny))
    ctypes.c_void_p.from_address(address).value = ctypes.addressof(copied) + before * ctypes.sizeof(ctypes.c_void_p)
