"""The answer to a request: the set, what every rule says about it, and why nothing newer was taken."""

from __future__ import annotations

from itertools import product

from stoker.plan.versions import candidates
from stoker.plan.versions.model import Plan, Request, TorchWheel, Verdict, VersionSet
from stoker.plan.versions.nearest import against, alternatives
from stoker.plan.versions.rules import judge, judge_pairs, violations
from stoker.plan.versions.search import Parts, first, fitting


def solve(request: Request) -> Plan:
    """The newest set that works, with the reasons; where none does, why, and what nearly does."""
    parts = fitting(request)
    chosen = first(request, parts)
    if chosen is None:
        return Plan(request, None, against=against(request), alternatives=tuple(alternatives(request)))
    return Plan(request, chosen, reasons=judge(request, chosen), newer=_newer(request, chosen, parts))


def _newer(request: Request, chosen: VersionSet, parts: Parts) -> list[tuple[str, list[Verdict]]]:
    """For each torch release newer than the chosen one: what speaks against its best wheel.

    Releases that were not asked for are left out: that is reason enough.
    """
    if chosen.torch is None:
        return []
    wheels_of: dict[str, list[TorchWheel]] = {}
    for wheel in candidates.torch_wheels():
        if wheel.release.torch > chosen.torch.release.torch and wheel.toolkit == chosen.torch.toolkit:
            wheels_of.setdefault(str(wheel.release.torch), []).append(wheel)
    least = {
        release: min((_least_against(request, wheel, parts) for wheel in wheels), key=len)
        for release, wheels in wheels_of.items()
    }
    return [
        (release, found)
        for release, found in least.items()
        if not any(verdict.rule.startswith("asked_") for verdict in found)
    ]


def _least_against(request: Request, wheel: TorchWheel, parts: Parts) -> list[Verdict]:
    """What rules out a wheel: by itself, or with the TensorFlow and the driver that suit it best."""
    alone = violations(request, VersionSet(wheel, None, None))
    if alone:
        return alone
    _, tensorflow, driver = parts
    together = (
        [found for found in judge_pairs(request, VersionSet(wheel, row, choice)) if found.state == "violated"]
        for row, choice in product(tensorflow, driver)
    )
    return min(together, key=len, default=[])
