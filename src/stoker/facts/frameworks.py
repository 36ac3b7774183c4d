"""Releases of torch and TensorFlow, of cuDNN and NCCL, and which binary runs on which card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from stoker.errors import UserError
from stoker.facts.drivers import Confidence
from stoker.facts.reader import VersionByKey, Versions, Words, load
from stoker.facts.version import Version

Published = Literal["yes", "no", "unsure"]


@dataclass(frozen=True)
class TorchRelease:
    """One minor release of torch: a row of torch_releases.csv.

    Attributes:
        patches: Its patch releases, oldest first; `torchvision` and `torchaudio` list their partners
            likewise.
        python: Python versions with an x86_64 wheel; `3.13t` is the free-threaded build.
        cuda_default: The CUDA of the wheel that a plain `pip install torch` brings.
        cuda_published: The CUDA variants on any index; `cuda_unconfirmed` are named by the wheel but were
            not seen.
        cudnn: cuDNN by CUDA variant; `nccl` likewise.
        triton: The requirement on triton; empty where the wheel has none.
        numpy: The bound on NumPy that its binary interface sets.
        glibc_min: The oldest glibc that the wheels install on.
    """

    torch: Version
    release_date: str
    patches: Versions
    python: Words
    cuda_default: Version
    cuda_published: Versions
    cuda_unconfirmed: Versions
    cudnn: VersionByKey
    nccl: VersionByKey
    cuda_runtime_pin: Version | None
    cusparselt_pin: Version | None
    nvshmem_pin: Version | None
    triton: str
    numpy: str
    cxx_standard: str
    manylinux_x86_64: str
    manylinux_aarch64: str
    glibc_min: Version
    torchvision: Versions
    torchvision_requires: str
    torchaudio: Versions
    torchaudio_requires: str
    source: str
    notes: str


@dataclass(frozen=True)
class TorchBuild:
    """One CUDA build of torch for one platform: a row of torch_cuda_archs.csv.

    Attributes:
        sm_list: Architectures with machine code, such as `sm_86`; `ptx_list` those with PTX.
        index: `pypi` for the default wheel, `cu126` for the PyTorch index of that name, empty if on none.
        confidence: How the list was found: `verified` was read out of the wheel itself.
        glibc_min: The oldest glibc, where it differs from the release's.
    """

    torch: Version
    cuda: Version
    platform: Literal["x86_64", "aarch64"]
    sm_list: Words
    ptx_list: Words
    index: str
    published: Published
    confidence: Literal["verified", "wheel-table", "build-script", "third-party", "conflict", "unsure"]
    glibc_min: Version | None
    source: str
    notes: str


@dataclass(frozen=True)
class RocmBuild:
    """One ROCm build of torch: a row of torch_rocm.csv. An empty `gfx_list` was not read: unknown."""

    torch: Version
    rocm: Version
    index: str
    gfx_list: Words
    published: Published
    source: str
    notes: str


@dataclass(frozen=True)
class TensorflowRelease:
    """One release of TensorFlow: a row of tensorflow.csv.

    Attributes:
        cuda: The CUDA it was built and tested with; `cudnn` likewise.
        cudnn_pin: What the `[and-cuda]` extra asks of nvidia-cudnn; `cudart_pin` and `nccl_pin` likewise.
        numpy: Its bound on NumPy.
        sm_list: Architectures with machine code, `ptx_list` with PTX; empty where it was not read.
    """

    tensorflow: Version
    release_month: str
    python: Words
    cuda: Version
    cudnn: Version
    compiler: str
    cudnn_pin: str
    cudart_pin: str
    nccl_pin: str
    numpy: str
    sm_list: Words
    ptx_list: Words
    source: str
    notes: str


@dataclass(frozen=True)
class CudnnRelease:
    """One release of cuDNN: a row of cudnn.csv.

    Attributes:
        cuda: CUDA majors (or, for the oldest, versions) it is built for.
        sm_min: The oldest architecture with kernels; `sm_max` the newest; empty if unknown.
        sm_range: How the range was found; `interpolated` was taken from measured neighbours.
        driver_min: The oldest driver by CUDA major.
        driver_min_blackwell: The oldest driver on Blackwell cards.
    """

    cudnn: Version
    release_month: str
    cuda: Versions
    sm_min: str
    sm_max: str
    sm_range: Literal["measured", "matrix", "interpolated", ""]
    driver_min: VersionByKey
    driver_min_blackwell: Version | None
    confidence: Confidence
    source: str
    notes: str


@dataclass(frozen=True)
class NcclRelease:
    """One release of NCCL: a row of nccl.csv, its architectures by CUDA major, empty if unknown."""

    nccl: Version
    release_month: str
    cuda_majors: tuple[int, ...]
    sm_cu11: Words
    sm_cu12: Words
    sm_cu13: Words
    source: str
    notes: str

    def sm_list(self, cuda_major: int) -> Words:
        """The architectures of the build for a CUDA major; empty is unknown."""
        return {11: self.sm_cu11, 12: self.sm_cu12, 13: self.sm_cu13}.get(cuda_major, ())


@dataclass(frozen=True)
class NumpyRelease:
    """One minor release of NumPy and the Python versions it has wheels for: a row of numpy.csv."""

    numpy: Version
    python: Words
    source: str
    notes: str


@dataclass(frozen=True)
class BinaryRule:
    """Which compute capabilities load machine code of one architecture: a row of arch_binary_compat.csv.

    Attributes:
        also_from_cuda: Further capabilities that builds of that CUDA version or newer accept.
    """

    sm: str
    runs_on: Words
    also_from_cuda: VersionByKey
    source: str
    notes: str


def torch_releases() -> tuple[TorchRelease, ...]:
    """All minor releases of torch, oldest first."""
    return load("torch_releases.csv", TorchRelease)


def torch_builds() -> tuple[TorchBuild, ...]:
    """All CUDA builds of torch, oldest first."""
    return load("torch_cuda_archs.csv", TorchBuild)


def rocm_builds() -> tuple[RocmBuild, ...]:
    """All ROCm builds of torch, oldest first."""
    return load("torch_rocm.csv", RocmBuild)


def tensorflow_releases() -> tuple[TensorflowRelease, ...]:
    """All releases of TensorFlow, newest first."""
    return load("tensorflow.csv", TensorflowRelease)


def cudnn_releases() -> tuple[CudnnRelease, ...]:
    """All releases of cuDNN, oldest first."""
    return load("cudnn.csv", CudnnRelease)


def nccl_releases() -> tuple[NcclRelease, ...]:
    """All releases of NCCL, oldest first."""
    return load("nccl.csv", NcclRelease)


def numpy_releases() -> tuple[NumpyRelease, ...]:
    """Minor releases of NumPy, oldest first; not all, but the last that each Python version gets."""
    return load("numpy.csv", NumpyRelease)


def binary_rules() -> tuple[BinaryRule, ...]:
    """Which machine code runs on which card."""
    return load("arch_binary_compat.csv", BinaryRule)


def torch_release(version: str) -> TorchRelease:
    """The release row of a torch version such as `2.14`, `2.14.1` or `2.14.1+cu130`.

    Raises:
        UserError: torch_releases.csv has no such release.
    """
    minor = ".".join(version.split("+")[0].split(".")[:2])
    for row in torch_releases():
        if str(row.torch) == minor:
            return row
    known = torch_releases()
    raise UserError(f"torch {version} is not known: torch_releases.csv has {known[0].torch} to {known[-1].torch}")


def cudnn_release(version: Version) -> CudnnRelease | None:
    """The row of a cuDNN version, None if the table has none."""
    return next((row for row in cudnn_releases() if row.cudnn == version), None)


def nccl_release(version: Version) -> NcclRelease | None:
    """The row of an NCCL version, None if the table has none."""
    return next((row for row in nccl_releases() if row.nccl == version), None)


def runs_on(sm: str, capability: str, cuda: Version | None = None) -> bool:
    """Whether machine code for `sm` (`sm_86`) loads on `capability` (`8.9`) in a build with CUDA `cuda`.

    Code runs within its major version on the same or a higher minor, with the exceptions of Jetson chips:
    8.9 runs sm_86 and sm_80, 8.7 does not. Source: DEVICE_REQUIREMENT of torch 2.15, arch_binary_compat.csv.
    """
    for rule in binary_rules():
        if rule.sm == sm:
            later = cuda is not None and any(
                cuda >= Version(first) and str(also) == capability for first, also in rule.also_from_cuda.items()
            )
            return later or capability in rule.runs_on
    # The table starts with Maxwell; for Kepler (sm_35, sm_37) the general rule holds.
    major, minor = capability.split(".")
    return sm[3:-1] == major and int(sm[-1]) <= int(minor)


def binaries_for(capability: str, sm_list: Words, cuda: Version | None = None) -> Words:
    """Those of `sm_list` that load on `capability`; empty: none does."""
    return tuple(sm for sm in sm_list if runs_on(sm, capability, cuda))
