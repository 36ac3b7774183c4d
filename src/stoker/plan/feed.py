"""What feeds a server: its supplies and the circuit they hang on."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.errors import UserError

CONTINUOUS_SHARE = 0.8
"""A circuit carries a continuous load up to 80 % of its breaker: NFPA 70 (NEC) 210.20(A)."""


@dataclass(frozen=True)
class Supplies:
    """Power supplies: how many, W each, and how many may fail with the server still running."""

    count: int
    watts: float
    spare: int = 1

    def __str__(self) -> str:
        return f"{self.count} x {self.watts:g} W"


@dataclass(frozen=True)
class Circuit:
    """What feeds the server.

    Attributes:
        volts: Between phases where there are three.
        phases: 1 or 3.
        breaker_a: The breaker of each feed in A, None if not given.
        feeds: Circuits that the supplies are spread over; with two or more, the others carry the server when
            one fails.
    """

    volts: float = 230.0
    phases: int = 1
    breaker_a: float | None = None
    feeds: int = 1


def parse_supplies(text: str, spare: int) -> Supplies:
    """Supplies written as `2x1600`.

    Raises:
        UserError: It is not of that form, or as many may fail as there are.
    """
    match = re.fullmatch(r"(\d+)\s*[xX]\s*(\d+)\s*[wW]?", text.strip())
    if match is None or int(match[1]) == 0:
        raise UserError(f"--supplies {text}: write count x watts, such as 2x1600")
    if not 0 <= spare < int(match[1]):
        raise UserError(f"--spare {spare}: of {match[1]} supplies at most {int(match[1]) - 1} can be spare")
    return Supplies(int(match[1]), float(match[2]), spare)
