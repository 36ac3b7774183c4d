"""Finds many fixed strings in a block of bytes at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

SMALL_BYTES = 1 << 16
"""Below this, one search per literal is quicker than to build an automaton."""


class Prefilter(Protocol):
    """Finds where any of its literals stand."""

    def find(self, block: bytes) -> list[tuple[int, int]]:
        """Pairs of (number of the literal, offset in the block), ordered by offset."""
        ...


class _OneByOne:
    """One `bytes.find` loop per literal: for pages, not for files."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._literals = literals

    def find(self, block: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for number, literal in enumerate(self._literals):
            at = block.find(literal)
            while at >= 0:
                found.append((number, at))
                at = block.find(literal, at + 1)
        found.sort(key=lambda pair: pair[1])
        return found


class _Automaton:
    """The Aho-Corasick automaton of the Rust crate, through `ahocorasick_rs`: about half a gigabyte a second."""

    def __init__(self, library: Any, literals: Sequence[bytes]) -> None:
        self._automaton = library.BytesAhoCorasick(list(literals), implementation=library.Implementation.DFA)

    def find(self, block: bytes) -> list[tuple[int, int]]:
        return [(number, at) for number, at, _ in self._automaton.find_matches_as_indexes(block, overlapping=True)]


class _Regex:
    """One regular expression of all literals, where the library is missing. Slower by an order of magnitude."""

    def __init__(self, literals: Sequence[bytes]) -> None:
        self._inner = _OneByOne(literals)
        self._any = re.compile(b"[^\n]*(?:" + b"|".join(_trie(sorted(literals))) + b")[^\n]*")

    def find(self, block: bytes) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for line in self._any.finditer(block):
            start = line.start()
            found.extend((number, start + at) for number, at in self._inner.find(line.group()))
        return found


def _trie(literals: Sequence[bytes], depth: int = 0) -> list[bytes]:
    """Branches of a regular expression that share their beginnings, so that few are tried at each place."""
    branches: list[bytes] = []
    at = 0
    while at < len(literals):
        literal = literals[at]
        if len(literal) <= depth:
            return [b""]
        end = at
        while end < len(literals) and literals[end][depth : depth + 1] == literal[depth : depth + 1]:
            end += 1
        group = literals[at:end]
        head = re.escape(literal[depth : depth + 1])
        if len(group) == 1:
            branches.append(re.escape(literal[depth:]))
        else:
            rest = _trie(group, depth + 1)
            branches.append(head + (b"(?:" + b"|".join(rest) + b")" if len(rest) > 1 else rest[0]))
        at = end
    return branches


def make_prefilter(literals: Sequence[bytes], expected_bytes: int) -> Prefilter:
    """The quickest finder for blocks of about `expected_bytes` that this Python has."""
    if expected_bytes <= SMALL_BYTES or not literals:
        return _OneByOne(literals)
    try:
        import ahocorasick_rs
    except ImportError:
        return _Regex(literals)
    return _Automaton(ahocorasick_rs, literals)
