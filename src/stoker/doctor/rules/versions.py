"""Versions that must agree: kernel module and libraries, torch and torchvision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

TORCHVISION_OFFSET = 15
"""torch 2.N belongs to torchvision 0.(N + 15), older pairs are in `_OLD_PAIRS` (README of torchvision)."""

_OLD_PAIRS = {
    "1.13": "0.14",
    "1.12": "0.13",
    "1.11": "0.12",
    "1.10": "0.11",
    "1.9": "0.10",
    "1.8": "0.9",
    "1.7": "0.8",
}


def judge_driver_versions(facts: Facts) -> Iterator[Verdict]:
    """The loaded kernel module and the user-space libraries must be of one version."""
    modules, libraries = facts.hits("kernel_module_version"), facts.hits("library_version")
    for module in modules:
        differing = [library for library in libraries if _normal(library["version"]) != _normal(module["version"])]
        if differing:
            yield verdict("driver-library-mismatch", 0.9, [module], differing[:2])
            return
        upgrades = [hit for hit in facts.hits("package_upgrade") if hit["old"].startswith(_normal(module["version"]))]
        if upgrades:
            yield verdict("driver-library-mismatch", 0.85, [module], upgrades[:2])
            return


@cache
def _normal(version: str) -> str:
    """TensorFlow writes 384.90.0 where the driver says 384.90."""
    parts = version.split(".")
    return ".".join(parts[:-1]) if len(parts) == 3 and parts[-1] == "0" else version


def judge_torchvision(facts: Facts) -> Iterator[Verdict]:
    """Each torchvision release fits one torch release, of the same CUDA variant."""
    for torch in facts.hits("torch_version"):
        for vision in facts.hits("torchvision_version"):
            if _belongs(torch, vision) is False:
                yield verdict("torch-torchvision-version-mismatch", 0.88, [torch], [vision])
                return


def _belongs(torch: Hit, vision: Hit) -> bool | None:
    major, minor = torch["version"].split(".")[:2]
    wanted = f"0.{int(minor) + TORCHVISION_OFFSET}" if major == "2" else _OLD_PAIRS.get(f"{major}.{minor}")
    if wanted is None:
        return None
    tags = torch["tag"], vision["tag"]
    same_build = not all(tags) or tags[0] == tags[1]
    return ".".join(vision["version"].split(".")[:2]) == wanted and same_build
