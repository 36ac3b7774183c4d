"""Rules on the driver: which branch runs the cards, with which kernel modules, and which CUDA it carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from stoker.facts.drivers import (
    DriverInstall,
    capabilities,
    cuda_release,
    driver_branches,
    driver_installs,
    min_driver,
)
from stoker.facts.gpus import Device
from stoker.facts.systems import OsRelease
from stoker.facts.version import Version
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel, Verdict

Found = Iterable[Verdict]
Flavour = Literal["open", "proprietary"]

_OPEN_IS_DEFAULT_FROM = 560
"""Branch; NVIDIA driver installation guide, kernel modules page."""


def asked_driver(request: Request, driver: DriverChoice) -> Found:
    """A driver that may not change is the only choice."""
    if request.driver is not None and not request.driver_may_change:
        yield Verdict("holds", "asked_driver", f"{driver.name} is given and may not change", "the request")


def driver_runs_gpu(request: Request, driver: DriverChoice) -> Found:
    """The branch is neither too old nor too new for each card."""
    branch = driver.branch.branch
    for device in request.devices:
        row = capabilities().get(device.capability)
        if row is None:
            continue
        card = f"{device.name} ({row.architecture}, {device.capability})"
        source = "capabilities.csv"
        if row.driver_first is not None and branch < row.driver_first:
            text = f"{card} needs driver branch {row.driver_first} or newer, not {branch}"
            yield Verdict("violated", "driver_runs_gpu", text, f"{source}, driver_first")
        elif row.driver_last is not None and branch > row.driver_last:
            text = f"driver branch {row.driver_last} is the last for {card}: {branch} no longer runs it"
            yield Verdict("violated", "driver_runs_gpu", text, f"{source}, driver_last")
        else:
            first = f"from {row.driver_first} on" if row.driver_first else "from the oldest on"
            last = f"up to {row.driver_last}, the last" if row.driver_last else "without an end yet"
            text = f"{card} runs on driver branches {first}, {last}: {branch} fits"
            yield Verdict("holds", "driver_runs_gpu", text, source)


def kernel_modules(request: Request, driver: DriverChoice) -> Found:
    """One flavour of the kernel modules, open or proprietary, drives all cards."""
    source = "capabilities.csv, open_modules ; NVIDIA driver installation guide, kernel modules"
    needs_open = [device.name for device in request.devices if _open(device) == "required"]
    needs_closed = [device.name for device in request.devices if _open(device) == "impossible"]
    if needs_open and needs_closed:
        text = f"{', '.join(needs_open)} needs the open kernel modules and "
        text += f"{', '.join(needs_closed)} the proprietary "
        text += "ones: one machine has one flavour, so they cannot be in it together"
        yield Verdict("violated", "kernel_modules", text, source)
    elif needs_open and not driver.branch.open_modules:
        text = f"{', '.join(needs_open)} needs the open kernel modules; branch {driver.branch.branch} has none"
        yield Verdict("violated", "kernel_modules", text, source)
    elif request.devices:
        flavour = module_flavour(request.devices, driver.branch.branch)
        why = (
            f"{', '.join(needs_open)} runs with no other"
            if needs_open
            else f"the open ones need Turing or newer, {', '.join(needs_closed)} is older"
            if needs_closed
            else f"the default from branch {_OPEN_IS_DEFAULT_FROM} on"
            if flavour == "open"
            else f"the open ones became the default with branch {_OPEN_IS_DEFAULT_FROM}"
        )
        yield Verdict("holds", "kernel_modules", f"{flavour} kernel modules: {why}", source)


def loaded_modules(request: Request, driver: DriverChoice) -> Found:
    """The kernel modules that are loaded are of a flavour that drives each card."""
    if request.open_modules is None or not driver.installed or request.driver_may_change:
        return
    loaded = "open" if request.open_modules else "proprietary"
    wrong = "impossible" if request.open_modules else "required"
    for device in request.devices:
        if _open(device) == wrong:
            other = "proprietary" if request.open_modules else "open"
            text = f"the {loaded} kernel modules are loaded, and {device.name} runs with the {other} ones only"
            source = "capabilities.csv, open_modules ; known_incompat.csv, K12, K13"
            yield Verdict("violated", "loaded_modules", text, source)


def driver_supported(request: Request, driver: DriverChoice) -> Found:
    """The branch still gets fixes."""
    row = driver.branch
    ends = f"{row.end_month[:4]}-{row.end_month[5:]}" if row.end_month else "an unknown month"
    if row.ended_by(request.day):
        text = f"driver branch {row.branch} has ended ({ends}): no more security fixes. "
        text += f"{_instead(request, driver)}"
        yield Verdict("caution", "driver_supported", text, "drivers.csv, end_month")
    elif row.end_month and row.end_month == request.day.strftime("%Y-%m"):
        text = f"driver branch {row.branch} ends this month ({ends}). {_instead(request, driver)}"
        yield Verdict("caution", "driver_supported", text, "drivers.csv, end_month")
    elif row.status == "unknown":
        text = f"how long driver branch {row.branch} gets fixes is not published. {_instead(request, driver)}"
        yield Verdict("caution", "driver_supported", text, "drivers.csv, status")
    else:
        kind = {"LTSB": "a long-term branch", "PB": "a production branch", "NFB": "a new-feature branch"}[row.kind]
        text = f"driver branch {row.branch} is {kind}, with fixes until {ends}"
        yield Verdict("holds", "driver_supported", text, "drivers.csv, end_month")


def driver_packages(request: Request, driver: DriverChoice) -> Found:
    """The operating system has packages of the branch in the flavour that the cards need."""
    if request.os is None or not request.devices or driver.installed:
        return
    flavour = module_flavour(request.devices, driver.branch.branch)
    if flavour is not None and install_recipe(request.os, driver.branch.branch, flavour) is None:
        text = f"no packages of driver branch {driver.branch.branch} ({flavour} modules) are known for "
        text += f"{request.os.name}: take NVIDIA's .run file, or another operating system"
        yield Verdict("caution", "driver_packages", text, "driver_install.csv")


def driver_runs_torch(request: Request, wheel: TorchWheel, driver: DriverChoice) -> Found:
    """The driver is at or above the floor of the wheel's CUDA."""
    del request  # the two parts are enough
    if wheel.toolkit == "cuda":
        yield from _driver_runs_cuda(wheel.name, wheel.version, driver)


def driver_runs_cuda(owner: str, cuda: Version, driver: DriverChoice) -> Found:
    """Whether a program built with CUDA `cuda`, with code for the card, runs on the driver."""
    yield from _driver_runs_cuda(owner, cuda, driver)


def module_flavour(devices: Sequence[Device], branch: int) -> Flavour | None:
    """The kernel modules for these cards on a branch; None if none drives them all."""
    needs = {_open(device) for device in devices}
    row = next((row for row in driver_branches() if row.branch == branch), None)
    has_open = row is not None and row.open_modules
    if needs >= {"required", "impossible"} or ("required" in needs and not has_open):
        return None
    if "required" in needs:
        return "open"
    return "open" if "impossible" not in needs and branch >= _OPEN_IS_DEFAULT_FROM else "proprietary"


def install_recipe(os: OsRelease, branch: int, flavour: Flavour) -> DriverInstall | None:
    """How the branch is installed there; None if no packages are known."""
    for row in driver_installs():
        fits = row.branch_first <= branch and (row.branch_last is None or branch <= row.branch_last)
        if row.os == os.id and os.version in row.versions and row.flavour == flavour and fits:
            return row
    return None


def _driver_runs_cuda(owner: str, cuda: Version, driver: DriverChoice) -> Found:
    floor = min_driver(cuda)
    exact = cuda_release(cuda).driver_exact
    source = "cuda_driver.csv, driver_minor"
    if floor is None:
        text = f"the oldest driver for CUDA {cuda} is not published: {owner} may fail on {driver.name}"
        yield Verdict("caution", "driver_runs_cuda", text, "cuda_driver.csv")
    elif driver.version < floor:
        text = f"{owner} needs driver >= {floor}, as every CUDA {cuda.major}.x does; {driver.stand}"
        yield Verdict("violated", "driver_runs_cuda", text, source)
    else:
        text = f"{owner} needs driver >= {floor}, as every CUDA {cuda.major}.x does; {driver.stand}"
        yield Verdict("holds", "driver_runs_cuda", text, source)
        if exact is not None and driver.version < exact:
            text = f"CUDA {cuda} on driver {driver.version} works by minor-version compatibility: "
            text += "the wheel's own "
            text += f"code runs, but PTX made by CUDA {cuda} tools needs driver >= {exact} "
            text += "(extensions, some NCCL builds)"
            yield Verdict(
                "caution",
                "minor_version",
                text,
                "cuda_driver.csv, driver_exact ; known_incompat.csv, K07, K32",
            )


def _open(device: Device) -> str:
    if device.needs_open_modules:
        return "required"
    row = capabilities().get(device.capability)
    return row.open_modules if row else "optional"


def _instead(request: Request, driver: DriverChoice) -> str:
    """What to take in place of a branch, if the cards allow it."""
    lasts = [capabilities()[d.capability].driver_last for d in request.devices if d.capability in capabilities()]
    last = min((value for value in lasts if value is not None), default=None)
    row = driver.branch
    if row.instead is None:
        return ""
    if last is not None and row.instead > last:
        cards = ", ".join(device.name for device in request.devices)
        return f"There is no branch to move to: {last} is the last for {cards}; new cards are the way out"
    return f"Take {row.instead} instead: {row.instead_reason}"
