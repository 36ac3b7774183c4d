"""Which fixed strings a line must hold before a regular expression can match it.

Used when the index is built: a log is first searched for these literals at the speed of memory, and only
lines that hold one meet a regular expression.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    try:
        from re import _parser as sre_parse  # pyright: ignore[reportAttributeAccessIssue]
    except ImportError:  # pragma: no cover - Python before 3.11
        import sre_parse  # type: ignore[no-redef]

MIN_LENGTH = 4
"""Shorter literals are in too many lines to be of use."""

MAX_ALTERNATIVES = 24
"""An alternation of more branches than this is not used as a set of literals."""

_COMMON = re.compile(
    r"\W*(?:[Mm]?emory|[Ee]rror|[Ff]ailed(?: to)?|[Vv]ersion|[Dd]evice|cannot|could not"
    r"|unable to|must|from|with|NCCL|DCGM|NVIDIA|nvidia|torch|CUDA|cuda|GPU\w?|INFO"
    r"|[Ll]?oss|rank|[Nn]ode|step|epoch|time|data|host|file|File|line|python)\W*"
)
"""Words that healthy logs are full of: never searched for if anything rarer will do."""


def required_literals(pattern: str) -> frozenset[str]:
    r"""The best set of strings of which every match of `pattern` holds at least one.

    Raises:
        ValueError: There is none of `MIN_LENGTH` or more characters: it would have to meet every line.

    >>> sorted(required_literals(r"failed to extend /dev/shm/\S+"))
    ['failed to extend /dev/shm/']
    >>> sorted(required_literals(r"(?:cannot|could not) open \w+ file"))
    ['cannot', 'could not']
    """
    tree: Any = sre_parse.parse(pattern)
    candidates = list(_sets(tree, ignore_case=bool(tree.state.flags & re.IGNORECASE)))
    usable = [one for one in candidates if min(map(len, one)) >= MIN_LENGTH]
    if not usable:
        raise ValueError(f"no fixed text of {MIN_LENGTH} or more characters in {pattern!r}")
    return max(usable, key=_worth)


def _worth(literals: frozenset[str]) -> float:
    """Long is rare, and few are cheap."""
    shortest = min(map(len, literals))
    common = any(_COMMON.fullmatch(literal) for literal in literals)
    return min(shortest, 20) - 1.5 * (len(literals) - 1) - 8.0 * common


def _sets(tree: Iterable[Any], *, ignore_case: bool) -> Iterable[frozenset[str]]:
    """Every set of literals that this sequence of nodes requires."""
    run = ""
    for node, value in tree:
        name = str(node)
        if name == "LITERAL" and not (ignore_case and chr(value).lower() != chr(value).upper()):
            run += chr(value)
            continue
        if name == "SUBPATTERN":
            _, add_flags, del_flags, inner = value
            inner_case = (ignore_case or bool(add_flags & re.IGNORECASE)) and not del_flags & re.IGNORECASE
            whole = _whole(inner, ignore_case=inner_case)
            if whole is not None:  # a plain group continues the literal around it
                run += whole
                continue
            yield from _sets(inner, ignore_case=inner_case)
        elif name == "BRANCH":
            union = _branch(value[1], ignore_case=ignore_case)
            if union:
                yield union
            if run and len(value[1]) <= MAX_ALTERNATIVES:  # what stands before continues in each branch
                yield frozenset(run + _leading(branch, ignore_case=ignore_case) for branch in value[1])
        elif name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and value[0] >= 1:
            yield from _sets(value[2], ignore_case=ignore_case)
        elif name in ("AT", "ASSERT", "ASSERT_NOT"):
            continue  # takes no room: the literal goes on behind it
        if run:
            yield frozenset({run})
        run = ""
    if run:
        yield frozenset({run})


def _leading(tree: Iterable[Any], *, ignore_case: bool) -> str:
    """The fixed text that a sequence begins with."""
    text = ""
    for node, value in tree:
        if str(node) != "LITERAL" or (ignore_case and chr(value).lower() != chr(value).upper()):
            break
        text += chr(value)
    return text


def _whole(tree: Iterable[Any], *, ignore_case: bool) -> str | None:
    nodes = list(tree)
    fixed = all(
        str(node) == "LITERAL" and not (ignore_case and chr(value).lower() != chr(value).upper())
        for node, value in nodes
    )
    return "".join(chr(value) for _, value in nodes) if fixed else None


def _branch(branches: list[Any], *, ignore_case: bool) -> frozenset[str] | None:
    if len(branches) > MAX_ALTERNATIVES:
        return None
    union: set[str] = set()
    for branch in branches:
        usable = [one for one in _sets(branch, ignore_case=ignore_case) if min(map(len, one)) >= MIN_LENGTH]
        if not usable:
            return None
        union |= max(usable, key=_worth)
    return frozenset(union)
