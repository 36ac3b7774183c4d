"""Checks of a machine: pure functions over a Snapshot, one file per topic; words and limits in `data/`.

Importing the package registers all of them.
"""

from stoker.doctor.checks import (
    container,
    cpu,
    driver,
    fabric,
    gpu,
    kernel_log,
    memory,
    network,
    pcie,
    peers,
    settings,
    slurm,
    software,
    storage,
    system,
)

__all__ = [
    "container",
    "cpu",
    "driver",
    "fabric",
    "gpu",
    "kernel_log",
    "memory",
    "network",
    "pcie",
    "peers",
    "settings",
    "slurm",
    "software",
    "storage",
    "system",
]
