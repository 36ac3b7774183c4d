"""Judges an environment that exists, by the same rules that choose one."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from stoker.errors import UserError
from stoker.facts.version import Version
from stoker.finding import Evidence, Finding
from stoker.plan.versions import candidates, environment_probe
from stoker.plan.versions.emit import pip_command
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel, Verdict, VersionSet
from stoker.plan.versions.rules import judge
from stoker.plan.versions.rules_torch import partner_of
from stoker.plan.versions.solve import solve

_TIMEOUT_S = 60
_ABOUT_DRIVER = {"driver_runs_cuda", "driver_runs_gpu", "driver_supported", "loaded_modules", "minor_version"}
_CONFIRM = "stoker plan versions --check"


@dataclass(frozen=True)
class Environment:
    """The packages of one Python.

    Attributes:
        packages: Version by distribution name in lower case, as `importlib.metadata` says; a label is kept.
        torch_build: What torch was built with: `cuda 13.0`, `hip 7.2`, `cpu`; empty if there is no torch.
    """

    python: str
    packages: Mapping[str, str]
    torch_build: str


def read_environment(python: Path | None = None) -> Environment:
    """The environment of this interpreter, or of another one.

    Raises:
        UserError: The other interpreter does not run.
    """
    if python is None:
        return _environment(environment_probe.probe())
    code = Path(environment_probe.__file__).read_text(encoding="utf-8")
    try:
        done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise UserError(f"the Python to check does not run: {python}: {error}") from None
    return _environment(json.loads(done.stdout))


def check(environment: Environment, request: Request) -> list[Finding]:
    """What is wrong in `environment` on the machine that `request` describes, worst first.

    One finding of state `ok` if nothing is. The fix is the newest set that works there.
    """
    request = replace(request, python=environment.python, packages=(), indexes=None)
    findings = list(_findings(environment, request))
    order = {"fail": 0, "warn": 1, "unknown": 2, "info": 3, "ok": 4}
    findings.sort(key=lambda finding: order[finding.state])
    if "torch" not in environment.packages or any(found.state in ("fail", "warn") for found in findings):
        return findings
    title = "torch, its partners and the driver go together"
    evidence = tuple(_package(environment, name) for name in ("torch", "torchvision") if name in environment.packages)
    return [*findings, Finding("ok", "versions.ok", title, evidence=evidence, area="versions")]


def _findings(environment: Environment, request: Request) -> Iterator[Finding]:
    if request.driver is None and request.vendors == {"NVIDIA"}:
        yield Finding(
            "unknown",
            "versions.driver_unread",
            "no NVIDIA driver could be read here, so its floor was not checked",
            collect=("cat /proc/driver/nvidia/version", "or give --driver"),
            source="/proc/driver/nvidia/version",
            area="versions",
        )
    if "torch" not in environment.packages:
        yield Finding(
            "info",
            "versions.no_torch",
            f"there is no torch in this Python {environment.python}",
            area="versions",
        )
    else:
        yield from _torch_findings(environment, request)
    yield from _two_cuda_majors(environment)


def _torch_findings(environment: Environment, request: Request) -> Iterator[Finding]:
    evidence = (_package(environment, "torch"), Evidence(environment.torch_build, source="torch/version.py"))
    fix = (_fix(request),)
    if environment.torch_build == "cpu":
        if request.devices:
            cards = ", ".join(device.name for device in request.devices)
            title = f"this torch is the CPU build: it uses none of the cards ({cards})"
            yield _finding("fail", "cpu_build", title, evidence, fix, "known_incompat.csv, K51")
        return
    wheel = installed_wheel(environment, request)
    if wheel is None:
        title = f"torch {environment.packages['torch']} ({environment.torch_build}) is in no "
        title += "table: nothing is known of it"
        yield _finding("unknown", "unknown_torch", title, evidence, (), "torch_releases.csv ; torch_cuda_archs.csv")
        return
    driver = _driver(request)
    for verdict in judge(request, VersionSet(wheel, None, driver)):
        if verdict.state != "holds":
            yield _of_verdict(verdict, evidence, driver, fix)
    yield from _partners(environment, wheel)
    yield from _pins(environment, wheel)


def installed_wheel(environment: Environment, request: Request) -> TorchWheel | None:
    """The wheel of the tables that is installed; None if it is in none."""
    kind, _, version = environment.torch_build.partition(" ")
    toolkit = {"cuda": "cuda", "hip": "rocm"}.get(kind)
    patch = environment.packages["torch"].partition("+")[0]
    for wheel in candidates.torch_wheels():
        same_kit = wheel.toolkit == toolkit and Version(version).parts[:2] == wheel.version.parts[:2]
        if same_kit and str(wheel.patch) == patch and wheel.platform == request.platform:
            # It is installed: whether an index still has it, and which, no longer matters.
            return replace(wheel, published="yes")
    return None


def _partners(environment: Environment, wheel: TorchWheel) -> Iterator[Finding]:
    """Torchvision and torchaudio of the torch release: a wrong pair fails at import."""
    rows = (
        ("torchvision", "vision", wheel.release.torchvision),
        ("torchaudio", "audio", wheel.release.torchaudio),
    )
    for name, kind, partners in rows:
        if name not in environment.packages:
            continue
        have = environment.packages[name].partition("+")[0]
        want = partner_of(wheel, kind)
        if have == str(want):
            continue
        same_release = have in map(str, partners)
        title = f"torch {wheel.patch} goes with {name} {want}, and {have} is installed"
        yield _finding(
            "warn" if same_release else "fail",
            f"{name}_mismatch",
            title if same_release else f"{title}: its operators were built for another torch",
            (_package(environment, "torch"), _package(environment, name)),
            (f"pip install {name}=={want}",),
            f"torch_releases.csv, {name} ; known_incompat.csv, K34",
        )


def _pins(environment: Environment, wheel: TorchWheel) -> Iterator[Finding]:
    """The libraries that torch pins are those that are installed, and NumPy keeps to the bound."""
    major = wheel.version.major
    for name, want in ((f"nvidia-cudnn-cu{major}", wheel.cudnn), (f"nvidia-nccl-cu{major}", wheel.nccl)):
        if wheel.toolkit == "cuda" and want is not None and environment.packages.get(name, str(want)) != str(want):
            yield _finding(
                "warn",
                "library_pin",
                f"torch {wheel.patch} pins {name} {want}, and {environment.packages[name]} is installed",
                (_package(environment, name),),
                (f"pip install {name}=={want}",),
                "torch_releases.csv, cudnn and nccl ; known_incompat.csv, K21, K27",
            )
    have, bound = environment.packages.get("numpy"), wheel.release.numpy
    if have is not None and bound and not SpecifierSet(bound).contains(have):
        yield _finding(
            "fail",
            "numpy_bound",
            f"torch {wheel.patch} was built for numpy{bound}: it cannot exchange data with NumPy {have}",
            (_package(environment, "numpy"),),
            (f"pip install 'numpy{bound}'",),
            "torch_releases.csv, numpy ; known_incompat.csv, K35",
        )


def _two_cuda_majors(environment: Environment) -> Iterator[Finding]:
    """nvidia-nccl-cu12 and -cu13 write the same files: which one is loaded is chance."""
    both = [name for name in ("nvidia-nccl-cu12", "nvidia-nccl-cu13") if name in environment.packages]
    if len(both) == 2:
        yield _finding(
            "fail",
            "two_cuda_majors",
            "NCCL of CUDA 12 and of CUDA 13 are both installed and write the same files",
            tuple(_package(environment, name) for name in both),
            ("make a new environment with packages of one CUDA major",),
            "known_incompat.csv, K28",
        )


def _of_verdict(
    verdict: Verdict, evidence: tuple[Evidence, ...], driver: DriverChoice | None, fix: tuple[str, ...]
) -> Finding:
    state = "fail" if verdict.state == "violated" else "warn"
    if driver is not None and verdict.rule in _ABOUT_DRIVER:
        evidence = (*evidence, Evidence(f"driver {driver.version}", source="/proc/driver/nvidia/version"))
    if verdict.rule == "minor_version":
        state = "info"  # a way to run that NVIDIA supports
    return _finding(state, verdict.rule, verdict.sentence, evidence, fix if state == "fail" else (), verdict.source)


def _finding(
    state: Any, cause: str, title: str, evidence: Iterable[Evidence], fix: tuple[str, ...], source: str
) -> Finding:
    return Finding(
        state,
        f"versions.{cause}",
        title,
        evidence=tuple(evidence),
        fix=fix,
        confirm=_CONFIRM if fix else "",
        source=source,
        area="versions",
    )


def _fix(request: Request) -> str:
    """What to install instead, with the machine as it is."""
    plan = solve(request)
    if plan.chosen is not None:
        return pip_command(plan)
    nearest = plan.alternatives[0].given_up if plan.alternatives else "the cards are replaced"
    return f"nothing in the tables works on this machine unless {nearest}: see `stoker plan versions`"


def _driver(request: Request) -> DriverChoice | None:
    if request.driver is None or request.vendors != {"NVIDIA"}:
        return None
    return candidates.drivers(replace(request, driver_may_change=False))[0]


def _package(environment: Environment, name: str) -> Evidence:
    """A package as `pip list` would print it."""
    return Evidence(f"{name} {environment.packages[name]}", source="importlib.metadata")


def _environment(data: Mapping[str, Any]) -> Environment:
    return Environment(data["python"], data["packages"], data["torch_build"])
