"""One value of a sample as a Reading: written out, compared, and with its last hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from stoker.monitor.naming import selector
from stoker.monitor.view.screen import Level, Reading, Trend
from stoker.monitor.view.words import Unit, Words
from stoker.monitor.watch import HOST, Key, Moment


@dataclass(frozen=True)
class Quantity:
    """A value that a screen shows.

    Attributes:
        name: The field of the sample, or the name of a rate.
        unit: How it is written.
        colour: Of its line, as an index into the palette.
    """

    name: str
    unit: Unit
    colour: int = 0


class Readings:
    """Makes the readings of one subject.

    Args:
        words: The texts.
        moment: What is known.
        subject: `gpu:<uuid>`, `run:<folder>` or `host`.
        room: The record's place in a sample, such as `gpus`, which names its series.
        labels: The labels that tell its series from others.
        levels: How a value stands, by the name of the quantity; what is not in it is well.
    """

    def __init__(
        self,
        words: Words,
        moment: Moment,
        *,
        subject: str = HOST,
        room: str = "host",
        labels: dict[str, str] | None = None,
        levels: dict[str, Level] | None = None,
    ) -> None:
        self._words = words
        self._moment = moment
        self._subject = subject
        self._room = room
        self._labels = labels or {}
        self._levels = levels or {}

    def rate(self, quantity: Quantity, *, note: str = "") -> Reading:
        """A rate made of a counter, with its last hour."""
        value = self._moment.rates.get(Key(self._subject, quantity.name))
        return self.of(quantity, value, note=note, scale=(0.0, 0.0), exported=False)

    def of(
        self,
        quantity: Quantity,
        value: float | None,
        *,
        note: str = "",
        scale: tuple[float, float] | None = None,
        exported: bool = True,
    ) -> Reading:
        """A reading.

        Args:
            quantity: What it is.
            value: Its present value; None where it was not measured.
            note: What to compare it with.
            scale: Ends of the axis of its last hour; equal ends ask for the highest value as the upper one. None
                for a value whose last hour is not kept.
            exported: Whether the value stands in `/metrics` as it is.
        """
        label = self._words(f"quantity.{quantity.name}")
        return Reading(
            name=quantity.name,
            label=label,
            text=self._words.written(value, quantity.unit),
            note=note if value is not None else "",
            level=self._levels.get(quantity.name, ""),
            value=value if exported else None,
            series=selector(f"{self._room}.{quantity.name}", **self._labels) if exported else "",
            trend=None if scale is None else self._trend(quantity, label, scale),
        )

    def _trend(self, quantity: Quantity, label: str, scale: tuple[float, float]) -> Trend | None:
        values = self._moment.history.values(Key(self._subject, quantity.name))
        known = [value for value in values if math.isfinite(value)]
        if not known:
            return None
        low, high = scale if scale[1] > scale[0] else _fitted(known, from_zero=scale == (0.0, 0.0))
        title = self._words(
            "trend",
            label=label,
            low=self._words.written(min(known), quantity.unit),
            high=self._words.written(max(known), quantity.unit),
        )
        return Trend(values=values, low=low, high=high, colour=quantity.colour, title=title)


def _fitted(known: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    """An axis that holds the values; one that never moves lies in the middle."""
    low, high = min(known), max(known)
    if from_zero:
        return 0.0, max(high, 0.0) or 1.0
    return (low, high) if high > low else (low - 1, high + 1)
