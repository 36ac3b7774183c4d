"""Dotted version numbers of drivers, CUDA, torch and libraries, compared number by number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, total_ordering


@total_ordering
@dataclass(frozen=True, eq=False)
class Version:
    """A dotted number such as `580.65.06` or `2.10`; `13` and `13.0` are the same, `2.9` is before `2.10`.

    Not PEP 440: no pre-releases and no labels. Attributes: text, as it was written.

    >>> Version("2.9") < Version("2.10") and Version("13") == Version("13.0")
    True
    """

    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"\d+(\.\d+)*", self.text):
            raise ValueError(f"not a dotted version number: {self.text!r}")

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """The numbers, without the zeros at the end."""
        numbers = [int(part) for part in self.text.split(".")]
        while len(numbers) > 1 and numbers[-1] == 0:
            numbers.pop()
        return tuple(numbers)

    @property
    def major(self) -> int:
        """The first number."""
        return self.parts[0]

    @property
    def minor(self) -> int:
        """The second number, 0 where there is none."""
        return self.parts[1] if len(self.parts) > 1 else 0

    def __str__(self) -> str:
        return self.text

    def __hash__(self) -> int:
        return hash(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self.parts == other.parts

    def __lt__(self, other: Version) -> bool:
        return self.parts < other.parts
