"""What of this machine decides a run's result and speed; no torch, nothing that can hang."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stoker.host.variables import matters

_PACKAGES = (
    "torch", "torchvision", "torchaudio", "torchmetrics", "numpy", "triton", "safetensors", "stoker",
    "transformers", "nvidia-",
)  # fmt: skip


def read_environment(root: Path = Path("/")) -> dict[str, Any]:
    """Machine, packages and variables, as plain values.

    Args:
        root: Where `proc` and `etc` are read from.
    """
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "python": sys.version.split()[0],
        "cpu": cpu_name(_text(root / "proc/cpuinfo")),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory_bytes(_text(root / "proc/meminfo")),
        "nvidia_driver": driver_version(_text(root / "proc/driver/nvidia/version")),
        "packages": _packages(),
        "variables": relevant_variables(os.environ),
        "command": sys.argv,
    }


def cpu_name(cpuinfo: str) -> str | None:
    """Model name in /proc/cpuinfo."""
    return _after(cpuinfo, "model name")


def memory_bytes(meminfo: str) -> int | None:
    """Total memory in bytes, from /proc/meminfo, which counts in KiB."""
    words = (_after(meminfo, "MemTotal") or "").split()
    return int(words[0]) * 1024 if words and words[0].isdigit() else None


def driver_version(text: str) -> str | None:
    """Driver version in /proc/driver/nvidia/version."""
    for word in text.split():
        if word.count(".") >= 1 and word.replace(".", "").isdigit():
            return word
    return None


def relevant_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that change how a run behaves."""
    return {name: value for name, value in sorted(environ.items()) if matters(name)}


def _packages() -> dict[str, str]:
    """From the names of the folders that installers leave: reading all metadata takes a hundred times as long."""
    names = [folder.name for place in sys.path for folder in Path(place or ".").glob("*.dist-info")]
    return {name: found for name, found in sorted(map(package_of, names)) if name.startswith(_PACKAGES)}


def package_of(folder: str) -> tuple[str, str]:
    """Name and version in a folder's name such as `nvidia_nccl_cu13-2.30.7.dist-info` (PEP 376, PEP 427)."""
    name, _, version = folder.removesuffix(".dist-info").partition("-")
    return name.lower().replace("_", "-"), version


def _after(text: str, key: str) -> str | None:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and name.strip() == key:
            return value.strip()
    return None


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
