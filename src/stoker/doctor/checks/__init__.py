"""Checks of a machine: pure functions over a Snapshot, one file per area; words and limits in `data/`."""

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

ALL = (
    driver, fabric, gpu, pcie, peers, network, container, slurm, software, settings, memory, cpu, storage, kernel_log,
    system,
)  # fmt: skip
"""The modules whose checks there are: importing them registers the checks."""
