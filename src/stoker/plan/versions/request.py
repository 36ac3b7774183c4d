"""Builds the request from what a person gave: words, files and this machine, in that order of weight."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from stoker.errors import Mistake, UserError
from stoker.facts.drivers import driver_branch
from stoker.facts.gpus import Device, identify
from stoker.facts.systems import find_os
from stoker.facts.version import Version
from stoker.plan.versions.asks import parse_version_ask, read_requirements
from stoker.plan.versions.machine import Machine, ids_of_lspci, recognise
from stoker.plan.versions.model import PackageAsk, Platform, Request


def build_request(
    *,
    gpus: Sequence[str] = (),
    machine: Machine | None = None,
    lspci: Path | None = None,
    driver: str | None = None,
    driver_may_change: bool = False,
    os: str | None = None,
    glibc: str | None = None,
    python: str | None = None,
    platform: Platform | None = None,
    torch: str | None = None,
    tensorflow: str | None = None,
    want_torch: bool = True,
    requirements: Path | None = None,
    plain_pip: bool = False,
    allow_unsure: bool = False,
) -> Request:
    """The request; what is given by hand goes before what was read.

    Raises:
        UserError: Something given cannot be understood: everything of it at once.
    """
    mistakes: list[Mistake] = []

    def keep(error: UserError) -> None:
        mistakes.extend(error.mistakes)

    request = _of_machine(machine) if machine else Request()
    devices: list[Device] = []
    for text in [part for given in gpus for part in given.split(",")]:
        try:
            devices.append(identify(text))
        except UserError as error:
            keep(error)
    try:
        devices += _of_lspci(lspci) if lspci else []
    except UserError as error:
        keep(error)
    if devices:
        several = len(devices) > 1 or None
        request = replace(request, devices=tuple(dict.fromkeys(devices)), multi_gpu=several)
    try:
        request = _with_driver(request, driver, driver_may_change)
    except UserError as error:
        keep(error)
    try:
        request = replace(request, os=find_os(os), glibc=None) if os else request
    except UserError as error:
        keep(error)
    for name, value in (("glibc", glibc), ("python", python)):
        if value is not None and not re.fullmatch(r"\d+\.\d+t?", value):
            mistakes.append(Mistake(f"--{name} {value}: write a version such as {_EXAMPLE[name]}"))
    if mistakes:
        raise UserError(*mistakes)
    request = replace(
        request,
        glibc=Version(glibc) if glibc else request.glibc,
        python=python or request.python,
        platform=platform or _platform_of(request),
        allow_unsure=allow_unsure,
    )
    return _with_packages(request, torch, tensorflow, want_torch, requirements, plain_pip)


_EXAMPLE = {"glibc": "2.31", "python": "3.12"}


def _of_machine(machine: Machine) -> Request:
    return Request(
        devices=machine.kinds,
        multi_gpu=len(machine.devices) > 1,
        platform=machine.platform,
        driver=machine.driver,
        open_modules=machine.open_modules,
        os=machine.os,
        glibc=machine.glibc,
        python=machine.python,
    )


def _of_lspci(path: Path) -> list[Device]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the output of lspci cannot be read: {path}: {error.strerror}") from None
    ids = ids_of_lspci(text)
    if not ids:
        raise UserError(f"no NVIDIA or AMD card in {path}: give the output of `lspci -nn`")
    devices, unknown = recognise(ids)
    if unknown:
        raise UserError(*(f"{path}: the card {pci_id} is in no table" for pci_id in unknown))
    return list(devices)


def _with_driver(request: Request, driver: str | None, may_change: bool) -> Request:
    if driver is None:
        return replace(request, driver_may_change=may_change)
    if driver.lower() in ("any", "may change", "may-change"):
        return replace(request, driver_may_change=True)
    driver_branch(driver)  # says what is wrong with it
    return replace(request, driver=Version(driver.strip().lstrip("rR")), driver_may_change=may_change)


def _platform_of(request: Request) -> Platform:
    return "aarch64" if any(device.host_platform == "aarch64" for device in request.devices) else request.platform


def _with_packages(
    request: Request,
    torch: str | None,
    tensorflow: str | None,
    want_torch: bool,
    requirements: Path | None,
    plain_pip: bool,
) -> Request:
    asks: dict[str, PackageAsk] = {}
    indexes = None
    if requirements is not None:
        found, indexes = read_requirements(requirements)
        asks = {ask.name: ask for ask in found}
        want_torch = want_torch and ("torch" in asks or "tensorflow" not in asks)
    if torch is not None:
        asks["torch"] = parse_version_ask("torch", torch)
    if tensorflow is not None and tensorflow != "any":
        asks["tensorflow"] = parse_version_ask("tensorflow", tensorflow)
    return replace(
        request,
        packages=tuple(asks.values()),
        want_torch=want_torch or torch is not None,
        want_tensorflow=tensorflow is not None or "tensorflow" in asks,
        indexes=("pypi",) if plain_pip else tuple(indexes) if indexes else None,
    )
