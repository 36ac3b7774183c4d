"""Driver branches, CUDA releases and what each compute capability needs of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import cache
from typing import Literal

from stoker.errors import UserError
from stoker.facts.reader import Words, load
from stoker.facts.version import Version

OpenModules = Literal["impossible", "optional", "required"]
Confidence = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class DriverBranch:
    """One branch of the NVIDIA Linux driver: a row of drivers.csv.

    Attributes:
        kind: LTSB (long-term), PB (production), NFB (new feature), empty if not published.
        end_month: Last month with fixes, `YYYY-MM`; empty if unknown.
        status: As of the month the table was made; `ended_by` also looks at `end_month`.
        max_cuda: The newest CUDA the branch reports and supports in full.
        instead: The branch to take in place of one that ended or soon ends, with `instead_reason`.
    """

    branch: int
    kind: Literal["LTSB", "PB", "NFB", ""]
    latest: Version | None
    release_month: str
    end_month: str
    status: Literal["supported", "ended", "unknown"]
    max_cuda: Version
    oldest_architecture: str
    open_modules: bool
    open_modules_rule: str
    instead: int | None
    instead_reason: str
    source: str
    notes: str

    def ended_by(self, day: date) -> bool:
        """Whether the branch gets no more fixes on `day`; the last month itself still counts as supported."""
        return self.status == "ended" or (self.end_month != "" and self.end_month < day.strftime("%Y-%m"))


@dataclass(frozen=True)
class CudaRelease:
    """One CUDA toolkit release: a row of cuda_driver.csv.

    Attributes:
        driver_exact: The driver it was released with: full function, PTX included.
        driver_minor: The oldest driver on which programs of the same CUDA major run when they hold machine
            code (not only PTX) for the card: minor-version compatibility. None before CUDA 11.
        sm_min: The oldest architecture its compiler still knows; `sm_max` the newest.
        gcc_max: The newest host gcc major that nvcc accepts; `clang_max` likewise.
    """

    cuda: Version
    release: str
    driver_exact: Version | None
    driver_minor: Version | None
    sm_min: str
    sm_max: str
    gcc_max: int | None
    clang_max: int | None
    release_month: str
    confidence: Confidence
    source: str
    notes: str


@dataclass(frozen=True)
class Capability:
    """What one NVIDIA compute capability needs: a row of capabilities.csv.

    Attributes:
        driver_first: The first branch that knows the card; None where it is older than the tables.
        driver_last: The last branch that runs it; None while support goes on.
        open_modules: Whether the open kernel modules can or must be used.
        cuda_first: The first CUDA release whose compiler knows it; `cuda_last` the last, None while it goes
            on.
    """

    capability: str
    architecture: str
    driver_first: int | None
    driver_last: int | None
    open_modules: OpenModules
    cuda_first: Version
    cuda_last: Version | None
    source: str
    notes: str


@dataclass(frozen=True)
class DriverInstall:
    """How a driver branch is installed on an operating system: a row of driver_install.csv.

    Attributes:
        commands: Shell commands in order; `{branch}` stands for the branch number.
    """

    os: str
    versions: Words
    branch_first: int
    branch_last: int | None
    flavour: Literal["open", "proprietary"]
    commands: Words
    confidence: Confidence
    source: str
    notes: str


def driver_branches() -> tuple[DriverBranch, ...]:
    """All branches, newest first."""
    return load("drivers.csv", DriverBranch)


def cuda_releases() -> tuple[CudaRelease, ...]:
    """All CUDA releases, newest first."""
    return load("cuda_driver.csv", CudaRelease)


def driver_installs() -> tuple[DriverInstall, ...]:
    """All ways to install a driver."""
    return load("driver_install.csv", DriverInstall)


@cache
def capabilities() -> dict[str, Capability]:
    """The capabilities of NVIDIA cards, such as `8.6`."""
    return {row.capability: row for row in load("capabilities.csv", Capability)}


def driver_branch(version: str) -> DriverBranch:
    """The branch of a driver version or branch name, such as `580.65.06`, `580` or `R580`.

    Raises:
        UserError: It is not a version, or the branch is not in drivers.csv.
    """
    match = re.fullmatch(r"[rR]?(\d{3})(\.[\d.]+)?", version.strip())
    if match is None:
        raise UserError(f"{version!r} is not a driver version: write a branch (580) or a version (580.65.06)")
    for row in driver_branches():
        if row.branch == int(match[1]):
            return row
    known = ", ".join(str(row.branch) for row in driver_branches())
    raise UserError(f"the driver branch {match[1]} is not known: drivers.csv has {known}")


def cuda_release(cuda: Version) -> CudaRelease:
    """The first release of a CUDA minor version, such as 12.8: what a wheel built with it asks at least.

    Raises:
        UserError: cuda_driver.csv has no such version.
    """
    rows = [row for row in cuda_releases() if row.cuda == cuda]
    if not rows:
        known = ", ".join(dict.fromkeys(str(row.cuda) for row in cuda_releases()))
        raise UserError(f"CUDA {cuda} is not known: cuda_driver.csv has {known}")
    return rows[-1]


def min_driver(cuda: Version) -> Version | None:
    """The oldest Linux driver that runs programs built with CUDA `cuda` for the card's architecture.

    This is the minor-version floor where there is one, and the driver of the toolkit itself before CUDA 11;
    in either case the lower of the two, as 11.0 came with a driver older than the later floor of CUDA 11.
    None if it is not published. Source: driver tables of the CUDA release notes.
    """
    row = cuda_release(cuda)
    known = [version for version in (row.driver_minor, row.driver_exact) if version is not None]
    return min(known, default=None)
