"""Where nothing works: what is in the way, and what works when as little as possible is given up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import combinations, product

from stoker.plan.versions.model import Alternative, Request, TorchWheel, Verdict, VersionSet
from stoker.plan.versions.rules import violations
from stoker.plan.versions.search import every, first, fitting

_ALTERNATIVES = 3
_GIVEN_UP_AT_ONCE = 3
_SETS_SHOWN = 4
_BEYOND_HELP = {"vendor", "platform"}
"""Rules that rule a wheel out whatever else is given up: it explains little while others are left."""
_USERS_WISH = {"asked_version", "asked_label", "asked_partners", "asked_tensorflow", "index_allowed"}


def against(request: Request) -> list[Verdict]:
    """Why nothing works: what rules out the sets that come nearest to what was asked.

    A part of which nothing is left explains it alone. Otherwise the parts clash, and the pairs do.
    """
    torch, tensorflow, driver = every(request)
    wheels = [None] if torch == [None] else _newest_patches(request, torch)
    left = fitting(request)
    found: list[Verdict] = []
    if not left[2]:
        found += _of_nearest(request, [VersionSet(None, None, choice) for choice in driver])
    if not left[1]:
        found += _of_nearest(request, [VersionSet(None, row, None) for row in tensorflow])
    if not left[0]:
        found += _of_nearest(request, [VersionSet(wheel, None, None) for wheel in wheels])
    if not found:
        near = [wheel for wheel in left[0] if wheel in wheels]
        found += _of_nearest(request, [VersionSet(*parts) for parts in product(near, left[1], left[2])])
    return list(dict.fromkeys(found))


def _newest_patches(request: Request, wheels: Iterable[TorchWheel | None]) -> list[TorchWheel | None]:
    """One wheel of each build: the newest patch that was asked for, or the newest at all."""
    ask = request.ask("torch")
    newest: dict[tuple[str, str, str], TorchWheel] = {}
    for wheel in wheels:
        if wheel is None:
            continue
        build = (str(wheel.release.torch), wheel.own_index, wheel.platform)
        known = newest.setdefault(build, wheel)
        if ask is not None and not ask.allows(known.patch) and ask.allows(wheel.patch):
            newest[build] = wheel
    return list(newest.values())


def _of_nearest(request: Request, sets: list[VersionSet]) -> list[Verdict]:
    """The verdicts against the nearest sets of each CUDA major: what is in the way of every road.

    Of sets that differ in version numbers only, the newest speaks for all.
    """
    judged = [(_major(chosen), violations(request, chosen)) for chosen in sets]
    least: dict[int | None, tuple[int, int, int]] = {}
    for major, found in judged:
        least[major] = min(least.get(major, _distance(found)), _distance(found))
    nearest = min(least.values())
    kinds: dict[tuple[object, ...], list[Verdict]] = {}
    for major, found in judged:
        if _distance(found) == least[major] and least[major][:2] == nearest[:2]:
            obstacles = tuple(re.sub(r"\(CUDA.*?\)|\d[\d.]*", "", verdict.sentence) for verdict in found)
            kinds.setdefault((major, *obstacles), found)
    shown = sorted(kinds.values(), key=_distance)[:_SETS_SHOWN]
    return [verdict for found in shown for verdict in found]


def _major(chosen: VersionSet) -> int | None:
    return chosen.torch.version.major if chosen.torch else None


def _distance(found: list[Verdict]) -> tuple[int, int, int]:
    """How far a set is from what was asked: against the user's words, then beyond help, then in number."""
    rules = [verdict.rule for verdict in found]
    return sum(rule in _USERS_WISH for rule in rules), sum(rule in _BEYOND_HELP for rule in rules), len(rules)


def relaxations(request: Request) -> Iterator[tuple[str, Callable[[Request], Request]]]:
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


def alternatives(request: Request) -> Iterator[Alternative]:
    """What works when as little as possible is given up."""
    options = list(relaxations(request))
    for count in range(1, _GIVEN_UP_AT_ONCE + 1):
        found: list[Alternative] = []
        for given_up in combinations(options, count):
            relaxed = request
            for _, relax in given_up:
                relaxed = relax(relaxed)
            chosen = first(relaxed, fitting(relaxed))
            if chosen is not None:
                found.append(Alternative(" and ".join(words for words, _ in given_up), chosen))
            if len(found) == _ALTERNATIVES:
                break
        if found:
            yield from found
            return
