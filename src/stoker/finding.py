"""Finding: what is wrong, what shows it, and what mends it. The one form in which every verb says so."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["ok", "info", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Evidence:
    """A line that was really read.

    Attributes:
        text: The line as it stands in its source.
        line: Its number in the source, from 1; None where lines are not counted.
        source: The file, command or probe it comes from; empty for the one input.
    """

    text: str
    line: int | None = None
    source: str = ""


@dataclass(frozen=True)
class Finding:
    """One verdict about a machine, a run or a log.

    Attributes:
        state: `fail`, `warn`, `info`, `ok`, or `unknown` where it could not be seen.
        cause: Identifier of the cause, as in docs/reference/causes.
        title: The cause in one sentence.
        confidence: From 0 to 1.
        evidence: The lines that show it.
        meaning: What follows from it for the user.
        fix: Steps that mend it, in order.
        confirm: How to see that it is mended.
        collect: What else to gather where the evidence is thin.
        source: Where the knowledge comes from.
        area: The part of the machine or of the software it belongs to.
        follows_from: The cause of another finding whose consequence this one is; empty if it stands alone.
    """

    state: State
    cause: str
    title: str
    confidence: float = 1.0
    evidence: tuple[Evidence, ...] = ()
    meaning: str = ""
    fix: tuple[str, ...] = ()
    confirm: str = ""
    collect: tuple[str, ...] = ()
    source: str = ""
    area: str = field(default="", kw_only=True)
    follows_from: str = field(default="", kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self)
