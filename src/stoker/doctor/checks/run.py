"""Run checks over a snapshot: findings with their texts, worst first within each area."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stoker.doctor.catalogue import load_texts
from stoker.doctor.checks.base import (
    CHECKS,
    SINGLE,
    About,
    CauseText,
    Check,
    Found,
    abouts,
    cause_texts,
    missing,
    remedies,
)
from stoker.errors import UserError
from stoker.finding import Finding, State
from stoker.host.snapshot import Snapshot

ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "info", "ok")
AREAS = (
    "driver", "gpu", "links", "network", "container", "slurm", "software", "settings", "memory", "cpu", "storage",
    "system",
)  # fmt: skip


def worst_of(states: Iterable[State], otherwise: State = "ok") -> State:
    """The worst of these states."""
    ordered = sorted(states, key=ORDER.index)
    return ordered[0] if ordered else otherwise


@dataclass(frozen=True)
class Verdict:
    """What one check said."""

    check: str
    finding: Finding


@dataclass(frozen=True)
class Examination:
    """The answer of all checks.

    Attributes:
        verdicts: One for each thing found, and one for each check that found nothing.
        taken: When the machine was read.
    """

    snapshot: Snapshot
    verdicts: tuple[Verdict, ...]

    def of(self, *states: State) -> tuple[Verdict, ...]:
        """Those of these states, worst first within each area."""
        return tuple(one for one in self.verdicts if one.finding.state in states)

    @property
    def worst(self) -> State:
        """The worst state; `ok` if nothing was judged."""
        return worst_of(one.finding.state for one in self.verdicts)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "schema": 1,
            "taken": self.snapshot.taken,
            "findings": [{"check": one.check, **one.finding.to_json()} for one in self.verdicts],
        }


def examine(snapshot: Snapshot, only: Sequence[str] = ()) -> Examination:
    """Judge a machine.

    Args:
        snapshot: The machine.
        only: Names of checks or areas; all if empty.

    Raises:
        UserError: A name in `only` is no check and no area.
    """
    verdicts = [verdict for one in select(only) for verdict in _judge(one, snapshot)]
    verdicts = _linked(verdicts)
    verdicts.sort(key=_place)
    return Examination(snapshot, tuple(verdicts))


def _place(one: Verdict) -> tuple[int, int, bool]:
    """By area, the worst first, and a cause before its consequence."""
    return AREAS.index(one.finding.area), ORDER.index(one.finding.state), bool(one.finding.follows_from)


def select(only: Sequence[str]) -> tuple[Check, ...]:
    """The checks of these names and areas."""
    known = abouts()
    wrong = [name for name in only if name not in CHECKS and name not in AREAS]
    if wrong:
        raise UserError(
            *(f"there is no check or area {name!r}: the areas are {', '.join(AREAS)}{_near(name)}" for name in wrong)
        )
    return tuple(one for one in CHECKS.values() if not only or one.name in only or known[one.name].area in only)


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, [*CHECKS, *AREAS], n=1)
    return f"; did you mean {near[0]}?" if near else ""


def _judge(one: Check, snapshot: Snapshot) -> Iterator[Verdict]:
    about = abouts()[one.name]
    if reason := missing(snapshot, one.needs):
        state: State = "ok" if reason == SINGLE else "unknown"
        yield Verdict(one.name, _plain(state, about, reason))
        return
    found = list(one.judge(snapshot, about.limits))
    for item in found:
        yield Verdict(one.name, _finding(item, about, snapshot))
    if not found:
        yield Verdict(one.name, _plain("ok", about, about.ok))


def _plain(state: State, about: About, title: str) -> Finding:
    return Finding(state, "", title, source=about.source, area=about.area)


def _finding(item: Found, about: About, snapshot: Snapshot) -> Finding:
    if not item.cause:
        return _plain(item.state, about, item.title)
    text = text_of(item.cause)
    values = {"kernel": snapshot.system.kernel, **item.values}
    systems = (snapshot.system.os_id, snapshot.system.family)
    return Finding(
        item.state,
        item.cause,
        item.title,
        evidence=item.evidence,
        meaning=text.meaning,
        fix=tuple(fill(line, systems, values) for line in text.fix),
        confirm=fill(text.confirm, systems, values),
        source=text.source or about.source,
        area=about.area,
    )


def text_of(cause: str) -> CauseText:
    """The words about a cause: its own, and the log reader's where it has none.

    Raises:
        KeyError: Neither knows it.
    """
    own = cause_texts().get(cause, CauseText())
    known = load_texts("en").get(cause)
    if known is None:
        return cause_texts()[cause]
    return CauseText(
        own.meaning or known.meaning,
        own.fix or known.fix,
        own.confirm or known.confirm,
        own.source or known.source,
        own.title or known.title,
    )


_PLACE = re.compile(r"\{([a-z][a-z_]*)\}")


def fill(line: str, systems: Sequence[str], values: Mapping[str, str]) -> str:
    """A step with its placeholders filled: `{install_headers}` by the distribution's command, `{kernel}` by a value.

    A placeholder that is neither stays as it stands: shells have braces too.

    Args:
        line: The step.
        systems: The distribution and its family, the nearer first.
        values: What the check gives.
    """

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in remedies():
            commands = remedies()[name]
            return fill(next(commands[one] for one in (*systems, "any") if one in commands), systems, values)
        return values.get(name, match[0])

    return _PLACE.sub(replace, line)


FOLLOWS = {
    "nvidia-driver-not-loaded": (
        "secure-boot-rejects-module", "dkms-module-missing", "nouveau-bound-gpu", "nova-core-bound-gpu",
        "kernel-headers-missing", "dkms-build-unsupported-kernel",
    ),
    "dkms-module-missing": ("kernel-headers-missing", "dkms-build-unsupported-kernel"),
}  # fmt: skip
"""Causes that explain another, where both are found."""


def _linked(verdicts: list[Verdict]) -> list[Verdict]:
    """Say of a finding that it follows from another one, and make it no failure of its own."""
    causes = {one.finding.cause for one in verdicts if one.finding.state in ("fail", "warn")}
    linked: list[Verdict] = []
    for one in verdicts:
        root = next((cause for cause in FOLLOWS.get(one.finding.cause, ()) if cause in causes), "")
        linked.append(Verdict(one.check, replace(one.finding, follows_from=root)) if root else one)
    return linked
