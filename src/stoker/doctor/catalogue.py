"""What the doctor knows: causes, the patterns that show them, and their texts.

The knowledge is written in `signatures/*.yaml`; what is read here is its index, made by
`stoker.doctor.build`, because parsing the YAML would take longer than a whole diagnosis.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any, Literal

from stoker.finding import State

Role = Literal["root", "cascade", "generic"]


@dataclass(frozen=True, slots=True)
class Clause:
    """One way to recognise a cause: all of these patterns, none of those, and this said in the context.

    Attributes:
        all: Numbers of patterns; of each group at least one must be found.
        none: Numbers of the patterns of which none may be found.
        context: Regular expressions that the context line must match, ignoring case.
        weight: How sure the cause is if the clause holds, from 0 to 1.
    """

    all: tuple[tuple[int, ...], ...]
    none: tuple[int, ...]
    context: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Signature:
    """A cause, and what it takes to recognise it.

    Attributes:
        cause: Its identifier.
        family: Its area, such as `driver` or `network`.
        state: How bad it is.
        role: `root` explains others, `cascade` follows from others, `generic` is a last resort.
        clauses: The ways to recognise it; empty where only a rule in Python finds it.
        explains: Causes that follow from this one; `family:*` for a whole family, `xid-*` for a beginning.
    """

    cause: str
    family: str
    state: State
    role: Role
    clauses: tuple[Clause, ...]
    explains: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """What is said about a cause, in one language."""

    title: str
    meaning: str
    fix: tuple[str, ...]
    confirm: str
    collect: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, the literals one of which its lines hold, and how many hits are kept."""

    regex: str
    literals: tuple[int, ...]
    limit: int


@dataclass
class Catalogue:
    """The whole knowledge, ready to be matched."""

    literals: tuple[bytes, ...]
    patterns: tuple[Pattern, ...]
    signatures: Mapping[str, Signature]
    facts: Mapping[str, tuple[int, ...]]
    by_literal: tuple[tuple[int, ...], ...]
    xids: Mapping[int, str]
    _compiled: dict[int, re.Pattern[str]] = field(default_factory=dict[int, "re.Pattern[str]"])

    def regex(self, number: int) -> re.Pattern[str]:
        """The compiled pattern; most are never needed for one log, and compiling all would take long."""
        compiled = self._compiled.get(number)
        if compiled is None:
            compiled = self._compiled[number] = re.compile(self.patterns[number].regex)
        return compiled


def _read(name: str) -> Any:
    return json.loads((resources.files("stoker.doctor") / "signatures" / name).read_bytes())


@cache
def load_catalogue() -> Catalogue:
    """Read the index of patterns and causes."""
    return catalogue_from(_read("index.json"))


def catalogue_from(index: Mapping[str, Any]) -> Catalogue:
    """Turn the index, as `stoker.doctor.build` makes it, into objects."""
    patterns = tuple(Pattern(regex, tuple(literals), limit) for regex, literals, limit in index["patterns"])
    literals = tuple(text.encode() for text in index["literals"])
    by_literal: list[list[int]] = [[] for _ in literals]
    for number, pattern in enumerate(patterns):
        for literal in pattern.literals:
            by_literal[literal].append(number)
    signatures = {
        cause: Signature(
            cause,
            row["family"],
            row["state"],
            row["role"],
            tuple(Clause(tuple(map(tuple, a)), tuple(n), tuple(c), w) for a, n, c, w in row["clauses"]),
            tuple(row["explains"]),
        )
        for cause, row in index["causes"].items()
    }
    return Catalogue(
        literals,
        patterns,
        signatures,
        {name: tuple(numbers) for name, numbers in index["facts"].items()},
        tuple(map(tuple, by_literal)),
        {int(code): cause for code, cause in index["xids"].items()},
    )


@cache
def load_texts(language: str) -> Mapping[str, Texts]:
    """What is said about each cause, in `en` or `zh`."""
    return {
        cause: Texts(
            row["title"],
            row["meaning"],
            tuple(row["fix"]),
            row["confirm"],
            tuple(row["collect"]),
            row["source"],
        )
        for cause, row in _read(f"texts.{language}.json").items()
    }
