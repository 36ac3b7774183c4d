"""Python environments: does torch fit the driver and the cards, do its parts fit each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.checks.base import Found, check, fail, fine, info, seen, warn
from stoker.doctor.checks.lookup import driver_version, row_of
from stoker.errors import UserError
from stoker.facts.drivers import min_driver
from stoker.facts.frameworks import binaries_for, torch_builds, torch_release
from stoker.facts.version import Version
from stoker.host.probes.python import PythonEnvironment
from stoker.host.snapshot import Snapshot

_NO_TORCH = "No Python environment here has torch."


def plain(version: str) -> Version | None:
    """The numbers of a version such as `2.14.1+cu130`; None if it does not begin with them."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return Version(match[0]) if match else None


def _place(one: PythonEnvironment) -> str:
    return one.executable or one.prefix


@check("torch-build", needs=("card", "python.environments"))
def torch_build(machine: Snapshot) -> Iterator[Found]:
    """A CPU build uses no GPU."""
    environments = machine.python.with_torch()
    if not environments:
        yield fine(_NO_TORCH)
    for one in environments:
        if one.torch and not one.torch_cuda and not one.torch_hip:
            yield fail(
                "torch-is-cpu-build",
                f"The torch of {_place(one)} is a CPU build.",
                seen(_place(one), f"torch {one.torch}"),
            )


@check("torch-driver", needs=("card", "python.environments"))
def torch_driver(machine: Snapshot) -> Iterator[Found]:
    """Each CUDA has an oldest driver."""
    driver = plain(driver_version(machine))
    if driver is None:
        yield fine("No NVIDIA driver is installed, so nothing can be compared.")
        return
    for one in machine.python.with_torch():
        cuda = plain(one.torch_cuda)
        if cuda is None:
            continue
        try:
            floor = min_driver(cuda)
        except UserError:  # a CUDA that is in no table
            continue
        if floor is not None and driver < floor:
            yield fail(
                "driver-too-old-for-cuda",
                f"The torch of {_place(one)} is built for CUDA {cuda} and needs driver {floor}; this one is {driver}.",
                seen(_place(one), f"torch {one.torch}, CUDA {one.torch_cuda}"),
                seen("driver version", str(driver)),
            )


@check("torch-architectures", needs=("card", "python.environments"))
def torch_architectures(machine: Snapshot) -> Iterator[Found]:
    """A wheel holds machine code for some cards only."""
    for one in machine.python.with_torch():
        version, cuda = plain(one.torch), plain(one.torch_cuda)
        if version is None or cuda is None:
            continue
        short = Version(".".join(version.text.split(".")[:2]))
        builds = [
            row
            for row in torch_builds()
            if row.torch == short and row.cuda == cuda and row.platform == (machine.system.arch or "x86_64")
        ]
        if not builds or not builds[0].sm_list:
            continue
        build = builds[0]
        for card in machine.pci.gpus():
            row = row_of(card)
            if row is None or not row.capability or _runs(row.capability, build.sm_list, build.ptx_list, cuda):
                continue
            yield fail(
                "torch-wheel-lacks-gpu-arch",
                f"The torch of {_place(one)} holds no code for the {row.name} (compute capability {row.capability}).",
                seen(_place(one), f"torch {one.torch}: {', '.join(build.sm_list)}"),
            )
            break


def _runs(capability: str, sm_list: tuple[str, ...], ptx_list: tuple[str, ...], cuda: Version) -> bool:
    if binaries_for(capability, sm_list, cuda):
        return True
    number = int(capability.replace(".", ""))
    older = [int(match[1]) for name in ptx_list if (match := re.search(r"_(\d+)", name))]
    return any(ptx <= number for ptx in older)


@check("torchvision", needs=("python.environments",))
def torchvision(machine: Snapshot) -> Iterator[Found]:
    """Each release of torchvision belongs to one of torch."""
    environments = [one for one in machine.python.with_torch() if one.package("torchvision")]
    if not environments:
        yield fine("No Python environment here has torch and torchvision.")
    for one in environments:
        torch, vision = plain(one.torch or one.package("torch")), plain(one.package("torchvision"))
        try:
            partners = torch_release(torch.text).torchvision if torch else ()
        except UserError:
            continue
        if vision is not None and partners and not any(_same_minor(vision, partner) for partner in partners):
            yield fail(
                "torch-torchvision-version-mismatch",
                f"torchvision {vision} does not belong to torch {torch}.",
                seen(
                    _place(one),
                    f"torch {torch}, torchvision {vision}; torch {torch} goes with torchvision {partners[-1]}",
                ),
            )


def _same_minor(one: Version, other: Version) -> bool:
    return (one.major, one.minor) == (other.major, other.minor)


@check("cuda-libraries", needs=("python.environments",))
def cuda_libraries(machine: Snapshot) -> Iterator[Found]:
    """CUDA libraries of two major versions in one environment overwrite each other's files."""
    for one in machine.python.environments:
        majors: dict[str, set[str]] = {}
        for name in one.packages or {}:
            if match := re.fullmatch(r"nvidia-([a-z-]+)-cu(1[1-9])", name):
                majors.setdefault(match[1], set()).add(match[2])
        doubled = sorted(name for name, found in majors.items() if len(found) > 1)
        if doubled:
            shown = [f"nvidia-{name}-cu{major}" for name in doubled[:2] for major in sorted(majors[name])]
            yield warn(
                "cuda-wheel-libs-conflict",
                f"{_place(one)} has {', '.join(doubled[:4])} for two CUDA versions.",
                seen(_place(one), ", ".join(shown)),
            )


@check("python-packages", needs=("python.environments",))
def python_packages(machine: Snapshot) -> Iterator[Found]:
    """Packages that are there twice, or half."""
    for one in machine.python.environments:
        trouble = [*one.duplicates, *one.broken, *(f"left over: {path}" for path in one.leftovers)]
        if trouble:
            yield warn(
                "python-packages-broken",
                f"{_place(one)} has packages that are there twice or half.",
                *(seen(_place(one), text) for text in trouble[:5]),
                python=_place(one),
            )


@check("library-path", needs=("settings.settings", "python.environments"))
def library_path(machine: Snapshot) -> Iterator[Found]:
    """LD_LIBRARY_PATH goes before what the wheels bring along."""
    setting = machine.settings.get("LD_LIBRARY_PATH")
    folders = [part for part in (setting.value if setting else "").split(":") if re.search(r"cuda|cudnn|nccl", part)]
    wheels = [
        one for one in machine.python.with_torch() if any(name.startswith("nvidia-") for name in one.packages or {})
    ]
    if setting and folders and wheels:
        yield warn(
            "ld-library-path-shadows-wheel-libs",
            "LD_LIBRARY_PATH puts system CUDA libraries before those that came with torch.",
            seen(setting.place, f"LD_LIBRARY_PATH={setting.value}"),
        )


@check("nvml-package", needs=("python.environments",))
def nvml_package(machine: Snapshot) -> Iterator[Found]:
    """Two packages bring a module named pynvml; the one of that name is no longer kept."""
    for one in machine.python.environments:
        if one.package("pynvml") and one.package("nvidia-ml-py"):
            yield info(
                "pynvml-twice",
                f"{_place(one)} has both pynvml and nvidia-ml-py.",
                seen(_place(one), f"pynvml {one.package('pynvml')}, nvidia-ml-py {one.package('nvidia-ml-py')}"),
                python=_place(one),
            )
