"""What probes share: noting why something is unknown, and small readers of common formats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from stoker.host.source import Output, Unreadable

Value = TypeVar("Value")


@dataclass
class Notes:
    """Why fields of one section of the snapshot are unknown.

    Attributes:
        unknown: Reason by field; the empty name stands for the whole section.
    """

    unknown: dict[str, str] = field(default_factory=dict[str, str])

    def note(self, name: str, reason: str) -> None:
        """Say why the field `name` is unknown."""
        self.unknown[name] = reason

    def take(self, name: str, found: Value | Unreadable) -> Value | None:
        """What was found; None, and the reason noted, if it could not be read."""
        if isinstance(found, Unreadable):
            self.note(name, found.reason)
            return None
        return found

    def output(self, name: str, found: Output | Unreadable) -> str | None:
        """What a command printed; None, and the reason noted, if it failed without printing anything."""
        output = self.take(name, found)
        if output is None:
            return None
        if output.code and not output.text.strip():
            self.note(name, first_line(output.errors) or f"the command ended with code {output.code}")
            return None
        return output.text


def text_of(found: str | Unreadable) -> str:
    """The text, or nothing where nothing could be read and no one needs to know why."""
    return "" if isinstance(found, Unreadable) else found


def printed(found: Output | Unreadable) -> str:
    """What a command printed, or nothing."""
    return "" if isinstance(found, Unreadable) else found.text


def names_of(found: tuple[str, ...] | Unreadable) -> tuple[str, ...]:
    """The names in a folder, or none."""
    return () if isinstance(found, Unreadable) else found


def first_line(text: str) -> str:
    """The first line that holds something, at most 200 characters of it."""
    return next((line.strip()[:200] for line in text.splitlines() if line.strip()), "")


def integer(text: str) -> int | None:
    """The number in a text such as `16`, `16x`, `0x1f` or `8192 MiB`; None if it does not begin with one."""
    match = re.match(r"\s*(0x[0-9a-fA-F]{1,16}\b|[+-]?\d{1,18})", text)
    return int(match[1], 0 if match[1].startswith("0x") else 10) if match else None


def number(text: str) -> float | None:
    """The number in a text such as `350.00 W`; None if it does not begin with one."""
    match = re.match(r"\s*([+-]?\d{1,18}(?:\.\d{1,9})?)", text)
    return float(match[1]) if match else None


def pairs(text: str, separator: str = ":") -> dict[str, str]:
    """The lines `key: value` of a text, the first of each key; values without their quotes."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        key, mark, value = line.partition(separator)
        if mark:
            found.setdefault(key.strip(), value.strip().strip('"'))
    return found


def cpu_list(text: str) -> tuple[int, ...] | None:
    """The CPUs of a list such as `0-3,8`; None if it is none.

    >>> cpu_list("0-2,8")
    (0, 1, 2, 8)
    """
    numbers: list[int] = []
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if match is None:
            return None
        numbers.extend(range(int(match[1]), int(match[2] or match[1]) + 1)[:65536])
    return tuple(numbers)


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Those of `names` that are wholly of the pattern."""
    return [name for name in names if re.fullmatch(pattern, name)]
