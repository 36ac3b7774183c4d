"""What a check is: a pure function over a Snapshot that says what it needs, and the data that goes with it."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from stoker.finding import Evidence, State
from stoker.host.snapshot import Snapshot

Number = int | float
Limits = Mapping[str, Number]


@dataclass(frozen=True)
class Found:
    """What a check found.

    Attributes:
        state: `ok` says in the title why there is nothing to find.
        title: One sentence about this machine.
        cause: Identifier of the cause; empty for `ok`.
        evidence: What shows it.
        values: For the placeholders of the fix, such as the card's address.
    """

    state: State
    title: str
    cause: str = ""
    evidence: tuple[Evidence, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict[str, str])


def fail(cause: str, title: str, *evidence: Evidence, **values: str) -> Found:
    """Something is broken."""
    return Found("fail", title, cause, evidence, values)


def warn(cause: str, title: str, *evidence: Evidence, **values: str) -> Found:
    """Something costs speed or will break."""
    return Found("warn", title, cause, evidence, values)


def info(cause: str, title: str, *evidence: Evidence, **values: str) -> Found:
    """Something to know; nothing is wrong."""
    return Found("info", title, cause, evidence, values)


def fine(title: str) -> Found:
    """Nothing to find, and why."""
    return Found("ok", title)


def unsure(title: str) -> Found:
    """It could not be judged, and why."""
    return Found("unknown", title)


def seen(source: str, text: str, line: int | None = None) -> Evidence:
    """A line or a value that was read."""
    return Evidence(text, line, source)


Function = Callable[..., Iterator[Found]]
"""Takes the snapshot, and the limits of its row in `checks.toml` if it has a parameter of that name."""


@dataclass(frozen=True)
class Check:
    """A check.

    Attributes:
        name: As `--only` takes it.
        needs: Fields of the snapshot that must be known (`driver.loaded`), or one of `NEEDS` (`gpu`).
        function: Judges; yields nothing if all is well.
    """

    name: str
    needs: tuple[str, ...]
    function: Function

    def judge(self, snapshot: Snapshot, limits: Limits) -> Iterator[Found]:
        """What it finds."""
        if "limits" in inspect.signature(self.function).parameters:
            return self.function(snapshot, limits)
        return self.function(snapshot)


CHECKS: dict[str, Check] = {}
"""All checks, in the order in which they were defined."""


def check(name: str, *, needs: tuple[str, ...] = ()) -> Callable[[Function], Function]:
    """Make a function a check; its area, words and limits stand under the same name in `data/checks.toml`."""

    def register(function: Function) -> Function:
        if name in CHECKS:
            raise ValueError(f"the check {name} is there twice")
        CHECKS[name] = Check(name, needs, function)
        return function

    return register


SINGLE = "There is only one GPU."
"""The one unmet need that is an answer and no gap."""


def _card(snapshot: Snapshot) -> str:
    if snapshot.pci.gpus():
        return ""
    return snapshot.why_unknown("pci.devices") or "there is no NVIDIA GPU in this machine"


def _gpu(snapshot: Snapshot) -> str:
    if snapshot.gpus.devices:
        return ""
    return _card(snapshot) or snapshot.why_unknown("gpus.devices") or "no GPU answered"


def _gpus(snapshot: Snapshot) -> str:
    return _gpu(snapshot) or ("" if len(snapshot.gpus.devices) > 1 else SINGLE)


NEEDS: Mapping[str, Callable[[Snapshot], str]] = {"card": _card, "gpu": _gpu, "gpus": _gpus}
"""Needs that are no single field: a card on the bus, a GPU that answers, several of them. Empty if satisfied."""


def missing(snapshot: Snapshot, needs: tuple[str, ...]) -> str:
    """Why the first unmet need of a check is unmet; empty if all are met."""
    for need in needs:
        reason = NEEDS[need](snapshot) if need in NEEDS else snapshot.why_unknown(need)
        if reason:
            return reason
    return ""


@dataclass(frozen=True)
class About:
    """The data of a check.

    Attributes:
        area: Where it is grouped.
        looks_at: What it looks at, for lists.
        ok: What is said where it finds nothing.
        limits: Its thresholds.
        source: Where the knowledge and the thresholds come from.
    """

    area: str
    looks_at: str
    ok: str
    source: str
    limits: Limits


@dataclass(frozen=True)
class CauseText:
    """What is said about a cause. An empty field is taken from the catalogue of the log reader."""

    meaning: str = ""
    fix: tuple[str, ...] = ()
    confirm: str = ""
    source: str = ""
    title: str = ""


def _read(name: str) -> dict[str, Any]:
    text = (resources.files("stoker.doctor.checks") / "data" / name).read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def abouts() -> Mapping[str, About]:
    """The data of every check, by name."""
    return {
        name: About(row["area"], row["looks_at"], row["ok"], row["source"], row.get("limits", {}))
        for name, row in _read("checks.toml").items()
    }


@cache
def cause_texts() -> Mapping[str, CauseText]:
    """Causes that the catalogue of the log reader lacks, and fixes that a check words more exactly."""
    return {
        cause: CauseText(
            row.get("meaning", ""),
            tuple(row.get("fix", ())),
            row.get("confirm", ""),
            row.get("source", ""),
            row.get("title", ""),
        )
        for cause, row in _read("causes.toml").items()
    }


@cache
def remedies() -> Mapping[str, Mapping[str, str]]:
    """Commands by purpose, then by family of distributions; `any` where a family has none of its own."""
    return _read("remedies.toml")
