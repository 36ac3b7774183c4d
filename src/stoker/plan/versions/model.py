"""What is asked of the version planner, what it chooses from, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Literal

from packaging.specifiers import SpecifierSet

from stoker.facts.drivers import DriverBranch
from stoker.facts.frameworks import Published, TensorflowRelease, TorchRelease
from stoker.facts.gpus import Device
from stoker.facts.reader import Words
from stoker.facts.systems import OsRelease
from stoker.facts.version import Version

Platform = Literal["x86_64", "aarch64"]
PYTORCH_INDEX = "https://download.pytorch.org/whl"


@dataclass(frozen=True)
class PackageAsk:
    """A requirement of the user on one package, its local label apart.

    Attributes:
        text: As it was written, for messages.
        specifier: Without the label.
        label: Such as `cu117` of `torch==1.13.1+cu117`; empty if none.
    """

    name: str
    text: str
    specifier: SpecifierSet = field(default_factory=SpecifierSet)
    label: str = ""

    def allows(self, version: Version) -> bool:
        """Whether the requirement takes this version."""
        return self.specifier.contains(str(version), prereleases=True)


@dataclass(frozen=True)
class Request:
    """What is given: every None and every empty tuple is free.

    Attributes:
        devices: The cards that must work, each kind once.
        multi_gpu: Whether several cards work together; None if not known.
        driver: The driver version or branch on the machine, or the one that is wanted.
        driver_may_change: Whether another driver can be installed.
        open_modules: Whether the kernel modules that are loaded are the open ones; None if not known.
        python: Such as `3.12`.
        glibc: Of the machine; from its operating system if not given itself.
        packages: Requirements by package name; torch is wanted unless only TensorFlow is.
        indexes: The indexes that may be used: `pypi` is the default one, `cu126` the PyTorch index of that
            name.
        allow_unsure: Whether to offer builds whose publication is not confirmed.
        day: The day for which support dates are judged.
    """

    devices: tuple[Device, ...] = ()
    multi_gpu: bool | None = None
    platform: Platform = "x86_64"
    driver: Version | None = None
    driver_may_change: bool = False
    open_modules: bool | None = None
    os: OsRelease | None = None
    glibc: Version | None = None
    python: str | None = None
    packages: tuple[PackageAsk, ...] = ()
    want_torch: bool = True
    want_tensorflow: bool = False
    indexes: Words | None = None
    allow_unsure: bool = False
    day: date = field(default_factory=lambda: date.today())  # noqa: DTZ011  # months count: no time zone matters

    def ask(self, name: str) -> PackageAsk | None:
        """The requirement on a package, None if there is none."""
        return next((ask for ask in self.packages if ask.name == name), None)

    @property
    def vendors(self) -> set[str]:
        """The makers of the cards; NVIDIA is meant where no card is named."""
        return {device.vendor for device in self.devices} or {"NVIDIA"}


@dataclass(frozen=True)
class TorchWheel:
    """One wheel of torch that could be installed.

    Attributes:
        toolkit: `cuda` or `rocm`, of version `version`.
        index: `pypi`, or the name of a PyTorch index; `own_index` is the PyTorch index of its variant.
        architectures: With machine code for; empty if not known (ROCm builds that were not read).
    """

    release: TorchRelease
    patch: Version
    toolkit: Literal["cuda", "rocm"]
    version: Version
    platform: Platform
    index: str
    published: Published
    architectures: Words
    glibc_min: Version
    source: str

    @property
    def own_index(self) -> str:
        """`cu126` or `rocm7.2`."""
        return f"rocm{self.version}" if self.toolkit == "rocm" else f"cu{str(self.version).replace('.', '')}"

    @property
    def cudnn(self) -> Version | None:
        """The cuDNN it brings; None if not known or not used."""
        return self.release.cudnn.get(str(self.version)) if self.toolkit == "cuda" else None

    @property
    def nccl(self) -> Version | None:
        """The NCCL it brings; None if not known or not used."""
        return self.release.nccl.get(str(self.version)) if self.toolkit == "cuda" else None

    @property
    def name(self) -> str:
        """As in sentences: `torch 2.14.1 (CUDA 12.6, index cu126)`."""
        kit = f"{'ROCm' if self.toolkit == 'rocm' else 'CUDA'} {self.version}"
        where = "PyPI's default wheel" if self.index == "pypi" else f"index {self.index}"
        return f"torch {self.patch} ({kit}, {where})"


@dataclass(frozen=True)
class DriverChoice:
    """A driver that is on the machine (`installed`) or could be put there.

    Attributes:
        assumed: Only the branch is known: `version` is its newest.
    """

    branch: DriverBranch
    version: Version
    installed: bool = False
    assumed: bool = False

    @property
    def name(self) -> str:
        """As in sentences."""
        exact = self.installed and not self.assumed
        return f"driver {self.version}" if exact else f"driver branch {self.branch.branch}"

    @property
    def stand(self) -> str:
        """What is known of its version, for sentences."""
        if self.installed and not self.assumed:
            return f"the driver is {self.version}"
        return f"branch {self.branch.branch} is at {self.version}"


@dataclass(frozen=True)
class VersionSet:
    """One combination. A part that is not wanted, or that the vendor does not need, is None."""

    torch: TorchWheel | None
    tensorflow: TensorflowRelease | None
    driver: DriverChoice | None


@dataclass(frozen=True)
class Verdict:
    """What one rule says about a set.

    Attributes:
        state: `holds`, `caution` (works, but the user should know), or `violated`.
        rule: The rule's name.
        sentence: The reason, for the user.
        source: The table or document it stands in.
    """

    state: Literal["holds", "caution", "violated"]
    rule: str
    sentence: str
    source: str


@dataclass(frozen=True)
class Alternative:
    """A combination that becomes possible when `given_up` no longer binds."""

    given_up: str
    chosen: VersionSet


@dataclass(frozen=True)
class Plan:
    """The answer.

    Attributes:
        chosen: The newest set that works; None if there is none.
        reasons: What every rule says about it.
        newer: Why newer torch releases were not taken: release, then the verdicts against it.
        against: Where nothing works: the verdicts that rule it out.
        alternatives: The nearest combinations that would work.
    """

    request: Request
    chosen: VersionSet | None
    reasons: Sequence[Verdict] = ()
    newer: Sequence[tuple[str, Sequence[Verdict]]] = ()
    against: Sequence[Verdict] = ()
    alternatives: Sequence[Alternative] = ()

    @property
    def cautions(self) -> list[Verdict]:
        """What the user should know although the set works."""
        return [verdict for verdict in self.reasons if verdict.state == "caution"]


Answer = dict[str, Any]
"""A plan as plain data for `json.dumps`."""
