"""Verdict: one thing that is wrong, without words; the screen finds these in the reader's language."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from stoker.monitor.judge.limits import Limits
from stoker.monitor.naming import selector
from stoker.monitor.watch import Key, Moment

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


@dataclass(frozen=True)
class Case:
    """One subject that is judged: makes its verdicts and proofs.

    Attributes:
        subject: As in `Verdict`.
        room: The place of its record in a sample: `gpus`, `runs`.
        record: What is known of it.
        labels: What tells its series from others.
        values: What the texts of all its verdicts have places for.
        moment: What is known of the machine.
        limits: The thresholds.
    """

    subject: str
    room: str
    record: object
    labels: Mapping[str, str]
    values: Mapping[str, str | float]
    moment: Moment
    limits: Limits

    def recent(self, name: str, seconds: float) -> list[float]:
        """The values of the last seconds; none unless the whole time was seen, but for the slot that is under way."""
        history = self.moment.history
        slots = max(1, round(seconds / history.step))
        values = history.values(Key(self.subject, name))[-slots:]
        known = [value for value in values if math.isfinite(value)]
        return known if len(known) >= slots - 1 else []

    def proof(self, name: str, value: float, **labels: str) -> Proof:
        """A value of the subject."""
        return Proof(f"{self.room}.{name}", value, {**self.labels, **labels})

    def present(self, *names: str) -> list[Proof]:
        """The present values of these fields, as far as they were measured."""
        values = ((name, getattr(self.record, name)) for name in names)
        return [self.proof(name, value) for name, value in values if value is not None]

    def verdict(
        self,
        cause: str,
        severity: Severity,
        *,
        quantity: str = "",
        proofs: Sequence[Proof] = (),
        said: str = "",
        **values: str | float,
    ) -> Verdict:
        """A verdict on the subject; the arguments are the fields of `Verdict`."""
        return Verdict(
            cause=cause,
            severity=severity,
            subject=self.subject,
            quantity=quantity,
            proofs=tuple(proofs),
            said=said,
            values={**self.values, **values},
        )
