"""Verdict: one thing that is wrong, without words; the screen finds these in the reader's language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stoker.monitor.naming import selector

Severity = Literal["fail", "warn", "info"]


@dataclass(frozen=True)
class Proof:
    """A value that shows it, as it stands in `/metrics`.

    Attributes:
        path: The field of the sample, such as `gpus.temperature_celsius`.
        value: Its value.
        labels: What tells its series from others.
    """

    path: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        return f"{selector(self.path, **self.labels)} {self.value:.6g}"


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One thing that is wrong.

    Attributes:
        cause: Its identifier, such as `gpu-lost`.
        severity: `fail`: it is broken; `warn`: it costs time or will break; `info`: worth knowing.
        subject: `gpu:<uuid>`, `run:<folder>` or `host`.
        quantity: The reading of the subject that it is about; empty if there is none.
        proofs: The values that show it.
        said: What a program said of it, in its own words.
        values: What the texts of the cause have places for.
    """

    cause: str
    severity: Severity
    subject: str
    quantity: str = ""
    proofs: tuple[Proof, ...] = ()
    said: str = ""
    values: Mapping[str, str | float] = field(default_factory=dict[str, str | float])
