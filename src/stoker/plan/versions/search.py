"""The search: the first combination, in order of preference, that no rule speaks against.

torch is preferred newest first, then TensorFlow, then the driver. Single parts are judged first, so that only
what is left of them is combined: some tens of milliseconds for most requests.
"""

from __future__ import annotations

from itertools import product

from stoker.facts.frameworks import TensorflowRelease
from stoker.plan.versions import candidates
from stoker.plan.versions.model import DriverChoice, Request, TorchWheel, VersionSet
from stoker.plan.versions.rules import fit_together, violations

Parts = tuple[list[TorchWheel | None], list[TensorflowRelease | None], list[DriverChoice | None]]


def every(request: Request) -> Parts:
    """All parts there are, in order of preference; a single None for a part that is not needed."""
    torch: list[TorchWheel | None] = [None]
    tensorflow: list[TensorflowRelease | None] = [None]
    driver: list[DriverChoice | None] = [None]
    if request.want_torch:
        torch = list(candidates.torch_wheels())
    if request.want_tensorflow:
        tensorflow = list(candidates.tensorflows())
    if request.vendors == {"NVIDIA"}:
        driver = list(candidates.drivers(request))
    return torch, tensorflow, driver


def fitting(request: Request) -> Parts:
    """Those parts that no rule on a single part rules out."""
    torch, tensorflow, driver = every(request)
    return (
        [wheel for wheel in torch if not violations(request, VersionSet(wheel, None, None))],
        [row for row in tensorflow if not violations(request, VersionSet(None, row, None))],
        [choice for choice in driver if not violations(request, VersionSet(None, None, choice))],
    )


def first(request: Request, parts: Parts) -> VersionSet | None:
    """The first set that works out of the `fitting` parts; None if there is none."""
    torch, tensorflow, driver = parts
    for wheel, row in product(torch, tensorflow):
        if not fit_together(request, VersionSet(wheel, row, None)):
            continue
        for choice in driver:
            chosen = VersionSet(wheel, row, choice)
            if fit_together(request, chosen):
                return chosen
    return None
