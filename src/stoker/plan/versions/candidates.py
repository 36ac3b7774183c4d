"""The parts that a set is chosen from, each in the order of preference."""

from __future__ import annotations

from functools import cache

from stoker.facts.drivers import driver_branch, driver_branches
from stoker.facts.frameworks import (
    TensorflowRelease,
    rocm_builds,
    tensorflow_releases,
    torch_builds,
    torch_release,
)
from stoker.facts.version import Version
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel

_KIND_ORDER = {"LTSB": 0, "PB": 1, "NFB": 2, "": 3}


@cache
def torch_wheels() -> tuple[TorchWheel, ...]:
    """Every wheel of torch, newest first; of one release the default wheel first, then the newest toolkit."""
    wheels = [
        TorchWheel(
            release=(release := torch_release(str(build.torch))),
            patch=patch,
            toolkit="cuda",
            version=build.cuda,
            platform=build.platform,
            index=build.index or "none",
            published=build.published,
            architectures=build.sm_list,
            glibc_min=build.glibc_min or release.glibc_min,
            source="torch_cuda_archs.csv",
        )
        for build in torch_builds()
        for patch in torch_release(str(build.torch)).patches
    ]
    wheels += [
        TorchWheel(
            release=(release := torch_release(str(build.torch))),
            patch=patch,
            toolkit="rocm",
            version=build.rocm,
            platform="x86_64",
            index=build.index,
            published=build.published,
            architectures=build.gfx_list,
            glibc_min=release.glibc_min,
            source="torch_rocm.csv",
        )
        for build in rocm_builds()
        for patch in torch_release(str(build.torch)).patches
    ]
    wheels.sort(
        key=lambda wheel: (wheel.patch, wheel.published == "yes", wheel.index == "pypi", wheel.version),
        reverse=True,
    )
    return tuple(wheels)


def tensorflows() -> list[TensorflowRelease]:
    """Every release of TensorFlow, newest first."""
    return sorted(tensorflow_releases(), key=lambda row: row.tensorflow, reverse=True)


def drivers(request: Request) -> list[DriverChoice]:
    """The drivers that may be used, best first.

    A driver that works and still gets fixes is kept. Otherwise long-term branches come before production
    ones and those before new-feature ones, newer before older, and branches that ended last: they are only
    for cards that have no other.
    """
    installed = [_installed(request.driver)] if request.driver is not None else []
    if installed and not request.driver_may_change:
        return installed
    day = request.day
    choices = [DriverChoice(row, row.latest) for row in driver_branches() if row.latest is not None]
    choices.sort(
        key=lambda choice: (
            choice.branch.ended_by(day),
            _KIND_ORDER[choice.branch.kind],
            -choice.branch.branch,
        )
    )
    keep = [choice for choice in installed if not choice.branch.ended_by(day)]
    return keep + choices


def _installed(version: Version) -> DriverChoice:
    """The given driver. A bare branch number stands for its newest patch."""
    row = driver_branch(str(version))
    if "." in version.text or row.latest is None:
        return DriverChoice(row, version, installed=True)
    return DriverChoice(row, row.latest, installed=True, assumed=True)
