"""Finds many fixed strings in a block of bytes at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

SMALL_BYTES = 1 << 16
"""Below this, one search per literal is quicker than to build anything."""

MAX_TEMPLATES = 200_000
"""Shapes of lines remembered; more would cost more memory than they save time."""

_MASK = bytes.maketrans(b"0123456789", b"0000000000")

Found = list[tuple[int, int]]
"""Pairs of (number of the literal, offset in the block), ordered by offset."""


class Prefilter(Protocol):
    """Finds where any of its literals stand."""

    def find(self, block: bytes) -> Found:
        """Every place of every literal, ordered."""
        ...

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget literals that can tell nothing new."""
        ...


class OneByOne:
    """One `bytes.find` loop per literal: for pages, not for files."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = dict(enumerate(literals))

    def find(self, block: bytes) -> Found:
        """Every place of every literal, ordered."""
        return _places(block, self._literals.items())

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget literals."""
        for number in numbers:
            self._literals.pop(number, None)


class Automaton:
    """The Aho-Corasick automaton of a Rust crate, through `ahocorasick_rs`: half a gigabyte a second."""

    def __init__(self, library: Any, literals: Sequence[bytes]) -> None:
        self._library = library
        self._literals = dict(enumerate(literals))
        self._build()

    def _build(self) -> None:
        self._numbers = list(self._literals)
        self._automaton = self._library.BytesAhoCorasick(
            list(self._literals.values()), implementation=self._library.Implementation.DFA
        )

    def find(self, block: bytes) -> Found:
        """Every place of every literal, ordered."""
        numbers = self._numbers
        found = [
            (numbers[index], start)
            for index, start, _ in self._automaton.find_matches_as_indexes(block, overlapping=True)
        ]
        found.sort(key=_offset)  # they come ordered by their ends
        return found

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget literals."""
        for number in numbers:
            self._literals.pop(number, None)
        self._build()


class ByTemplate:
    """Without the library: lines repeat but for their numbers, so each shape of line is searched only once.

    A block costs one pass that masks digits, one that splits lines and a set difference, all in C. Only
    lines of a shape that was not seen before meet a regular expression; literals known to occur are then
    looked up one by one.
    """

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = dict(enumerate(literals))
        self._masked = {number: literal.translate(_MASK) for number, literal in self._literals.items()}
        self._any = re.compile(b"|".join(_trie(sorted(set(self._masked.values())))))
        self._quiet: set[bytes] = set()
        self._loud: dict[bytes, tuple[int, ...]] = {}

    def find(self, block: bytes) -> Found:
        """Every place of every literal, ordered."""
        templates = set(block.translate(_MASK).split(b"\n"))
        for template in (templates - self._quiet).difference(self._loud):
            if self._any.search(template):
                self._loud[template] = tuple(n for n, literal in self._masked.items() if literal in template)
            else:
                self._quiet.add(template)
        occurring = {number for template in templates.intersection(self._loud) for number in self._loud[template]}
        if len(self._quiet) + len(self._loud) > MAX_TEMPLATES:
            self._quiet.clear()
            self._loud.clear()
        return _places(block, ((n, self._literals[n]) for n in occurring if n in self._literals))

    def drop(self, numbers: Iterable[int]) -> None:
        """Forget literals; the shapes of lines stay known."""
        for number in numbers:
            self._literals.pop(number, None)


def _places(block: bytes, literals: Iterable[tuple[int, bytes]]) -> Found:
    found: Found = []
    for number, literal in literals:
        at = block.find(literal)
        while at >= 0:
            found.append((number, at))
            at = block.find(literal, at + 1)
    found.sort(key=_offset)
    return found


def _offset(pair: tuple[int, int]) -> int:
    return pair[1]


def _trie(literals: Sequence[bytes], depth: int = 0) -> list[bytes]:
    """Branches of a regular expression that share their beginnings: few are tried at each place."""
    branches: list[bytes] = []
    at = 0
    while at < len(literals):
        literal = literals[at]
        if len(literal) <= depth:
            return [b""]  # the shorter one is enough: what continues it matches as well
        end = at
        while end < len(literals) and literals[end][depth : depth + 1] == literal[depth : depth + 1]:
            end += 1
        if end - at == 1:
            branches.append(re.escape(literal[depth:]))
        else:
            rest = _trie(literals[at:end], depth + 1)
            inner = b"(?:" + b"|".join(rest) + b")" if len(rest) > 1 else rest[0]
            branches.append(re.escape(literal[depth : depth + 1]) + inner)
        at = end
    return branches


def make_prefilter(literals: Sequence[bytes], expected_bytes: int) -> Prefilter:
    """The quickest finder for blocks of about `expected_bytes` that this Python has."""
    if expected_bytes <= SMALL_BYTES:
        return OneByOne(literals)
    try:
        import ahocorasick_rs  # pyright: ignore[reportMissingImports] - an extra
    except ImportError:
        return ByTemplate(literals)
    return Automaton(ahocorasick_rs, literals)
