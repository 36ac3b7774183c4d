"""The search: the first combination, in order of preference, that no rule speaks against, and the reasons.

torch is preferred newest first, then TensorFlow, then the driver. Single parts are judged first, so that the
product stays small: a few hundred wheels, some twenty releases and branches, some 40 ms for most requests,
up to half a second with TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product

from stoker.facts.frameworks import TensorflowRelease
from stoker.plan.versions import candidates
from stoker.plan.versions.model import (
    Alternative,
    DriverChoice,
    Plan,
    Request,
    TorchWheel,
    Verdict,
    VersionSet,
)
from stoker.plan.versions.rules import judge, violations

Parts = tuple[list[TorchWheel | None], list[TensorflowRelease | None], list[DriverChoice | None]]
_ALTERNATIVES = 3
_GIVEN_UP_AT_ONCE = 3


def solve(request: Request) -> Plan:
    """The newest set that works, with the reasons; where none does, why, and what nearly does."""
    chosen = _first(request, _fitting(request))
    if chosen is None:
        return Plan(request, None, against=_against(request), alternatives=tuple(_alternatives(request)))
    return Plan(request, chosen, reasons=judge(request, chosen), newer=_newer(request, chosen))


def _fitting(request: Request) -> Parts:
    """The parts that no rule on a single part rules out; a single None for a part that is not needed."""
    torch: list[TorchWheel | None] = [None]
    tensorflow: list[TensorflowRelease | None] = [None]
    driver: list[DriverChoice | None] = [None]
    if request.want_torch:
        torch = [
            wheel
            for wheel in candidates.torch_wheels()
            if not violations(request, VersionSet(wheel, None, None))
        ]
    if request.want_tensorflow:
        tensorflow = [
            row for row in candidates.tensorflows() if not violations(request, VersionSet(None, row, None))
        ]
    if request.vendors == {"NVIDIA"}:
        driver = [
            choice
            for choice in candidates.drivers(request)
            if not violations(request, VersionSet(None, None, choice))
        ]
    return torch, tensorflow, driver


def _first(request: Request, parts: Parts) -> VersionSet | None:
    torch, tensorflow, driver = parts
    for wheel, row in product(torch, tensorflow):
        if wheel is not None and row is not None and violations(request, VersionSet(wheel, row, None)):
            continue
        for choice in driver:
            if not violations(request, VersionSet(wheel, row, choice)):
                return VersionSet(wheel, row, choice)
    return None


def _newer(request: Request, chosen: VersionSet) -> list[tuple[str, list[Verdict]]]:
    """For each torch release newer than the chosen one: what speaks against its best wheel."""
    if chosen.torch is None:
        return []
    newer: dict[str, list[TorchWheel]] = {}
    for wheel in candidates.torch_wheels():
        if wheel.release.torch > chosen.torch.release.torch and wheel.toolkit == chosen.torch.toolkit:
            newer.setdefault(str(wheel.release.torch), []).append(wheel)
    against = [
        (name, min((_least_against(request, wheel) for wheel in wheels), key=len))
        for name, wheels in newer.items()
    ]
    return [
        (name, found)
        for name, found in against
        if not any(verdict.rule.startswith("asked_") for verdict in found)
    ]


def _least_against(request: Request, wheel: TorchWheel) -> list[Verdict]:
    """What rules out a wheel, with the driver and TensorFlow that suit it best."""
    rows: list[TensorflowRelease | None] = (
        list(candidates.tensorflows()) if request.want_tensorflow else [None]
    )
    choices: list[DriverChoice | None] = [None]
    if request.vendors == {"NVIDIA"}:
        choices = list(candidates.drivers(request))
    alone = violations(request, VersionSet(wheel, None, None))
    if alone:
        return alone
    return min(
        (violations(request, VersionSet(wheel, row, choice)) for row in rows for choice in choices), key=len
    )


def _against(request: Request) -> list[Verdict]:
    """Why nothing works: what rules out the parts that come nearest to what was asked."""
    torch, tensorflow, driver = _fitting(request)
    wheels = _newest_patches(request, candidates.torch_wheels())
    found: list[Verdict] = []
    if request.vendors == {"NVIDIA"} and not driver:
        found += _nearest(request, [VersionSet(None, None, choice) for choice in candidates.drivers(request)])
    if request.want_tensorflow and not tensorflow:
        found += _nearest(request, [VersionSet(None, row, None) for row in candidates.tensorflows()])
    if request.want_torch and not torch:
        found += _nearest(request, [VersionSet(wheel, None, None) for wheel in wheels])
    if not found:
        near = [wheel for wheel in torch if wheel is None or wheel in wheels]
        sets = [VersionSet(*parts) for parts in product(near, tensorflow, driver)]
        found += _nearest(request, sets)
    return list(dict.fromkeys(found))


def _newest_patches(request: Request, wheels: Iterable[TorchWheel]) -> list[TorchWheel]:
    """One wheel of each build: the newest patch that was asked for, or the newest at all."""
    ask = request.ask("torch")
    newest: dict[tuple[str, str, str], TorchWheel] = {}
    for wheel in wheels:
        build = (str(wheel.release.torch), wheel.own_index, wheel.platform)
        known = newest.setdefault(build, wheel)
        if ask is not None and not ask.allows(known.patch) and ask.allows(wheel.patch):
            newest[build] = wheel
    return list(newest.values())


def _nearest(request: Request, sets: list[VersionSet]) -> list[Verdict]:
    """The verdicts against the sets nearest to what was asked: right version, then fewest verdicts."""
    judged = [violations(request, chosen) for chosen in sets]

    def distance(found: list[Verdict]) -> tuple[int, int]:
        return sum(verdict.rule in ("asked_version", "asked_tensorflow") for verdict in found), len(found)

    near = [found for found in judged if distance(found) == min(map(distance, judged))]
    return list(dict.fromkeys(verdict for found in near[:4] for verdict in found))


def _relaxations(request: Request) -> Iterator[tuple[str, Callable[[Request], Request]]]:
    """What the user could give up, the cheapest first."""
    if request.indexes is not None:
        yield "another package index may be used", lambda asked: replace(asked, indexes=None)
    if request.driver is not None and not request.driver_may_change:
        yield "the driver may change", lambda asked: replace(asked, driver_may_change=True)
    if request.python is not None:
        yield "another Python may be used", lambda asked: replace(asked, python=None)
    for ask in request.packages:
        if ask.label:
            yield (
                f"`{ask.text}` loses its label",
                lambda asked, name=ask.name: replace(
                    asked,
                    packages=tuple(replace(o, label="") if o.name == name else o for o in asked.packages),
                ),
            )
        yield (
            f"`{ask.text}` may change",
            lambda asked, name=ask.name: replace(
                asked, packages=tuple(other for other in asked.packages if other.name != name)
            ),
        )
    if request.want_torch and request.want_tensorflow:
        yield "TensorFlow gets an environment of its own", lambda asked: replace(asked, want_tensorflow=False)
    if request.os is not None or request.glibc is not None:
        yield (
            "another operating system (or a container) may be used",
            lambda asked: replace(asked, os=None, glibc=None),
        )
    if len(request.devices) > 1:
        for device in request.devices:
            yield (
                f"{device.name} is left out",
                lambda asked, gone=device: replace(
                    asked, devices=tuple(other for other in asked.devices if other is not gone)
                ),
            )


def _alternatives(request: Request) -> Iterator[Alternative]:
    """What works when as little as possible is given up."""
    options = list(_relaxations(request))
    for count in range(1, _GIVEN_UP_AT_ONCE + 1):
        found: list[Alternative] = []
        for given_up in combinations(options, count):
            relaxed = request
            for _, relax in given_up:
                relaxed = relax(relaxed)
            chosen = _first(relaxed, _fitting(relaxed))
            if chosen is not None:
                found.append(Alternative(" and ".join(words for words, _ in given_up), chosen))
            if len(found) == _ALTERNATIVES:
                break
        if found:
            yield from found
            return
