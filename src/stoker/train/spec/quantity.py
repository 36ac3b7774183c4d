"""Amounts with a unit, as people write them: `20 epochs`, `500 steps`, `2 hours`, `3e9 tokens`, `5 %`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

Unit = Literal["steps", "epochs", "seconds", "tokens", "percent", "never"]

_SPELLINGS: dict[str, tuple[Unit, float]] = {
    "step": ("steps", 1),
    "epoch": ("epochs", 1),
    "second": ("seconds", 1),
    "minute": ("seconds", 60),
    "hour": ("seconds", 3600),
    "day": ("seconds", 86400),
    "token": ("tokens", 1),
    "percent": ("percent", 1),
    "%": ("percent", 1),
}
_WORDS: dict[Unit, str] = {
    "steps": "'500 steps'",
    "epochs": "'20 epochs'",
    "seconds": "'2 hours' (or seconds, minutes, days)",
    "tokens": "'3e9 tokens'",
    "percent": "'5 %'",
    "never": "'never'",
}


@dataclass(frozen=True)
class Quantity:
    """An amount and its unit.

    Attributes:
        amount: How many; not negative.
        unit: Times are in seconds whatever was written; `tokens` counts the weight that `Task.loss` returns.

    >>> Quantity.parse("2 hours")
    Quantity(amount=7200.0, unit='seconds')
    """

    amount: float
    unit: Unit

    @classmethod
    def parse(cls, text: Any, units: tuple[Unit, ...] = get_args(Unit)) -> Quantity:
        """Read `text`, which must be in one of `units`.

        Raises:
            ValueError: With what may be written instead.
        """
        quantity = cls._read(text)
        if quantity is None or quantity.unit not in units:
            raise ValueError(f"{text!r} is not understood: write {_alternatives(units)}")
        if quantity.unit in ("steps", "epochs") and quantity.amount != int(quantity.amount):
            raise ValueError(f"{text!r} is not a whole number of {quantity.unit}")
        return quantity

    @classmethod
    def _read(cls, text: Any) -> Quantity | None:
        if isinstance(text, int) and not isinstance(text, bool) and text == 0:
            return cls(0.0, "steps")
        if isinstance(text, Quantity):
            return text
        if text in ("never", False):  # YAML reads a bare `off` or `no` as false
            return cls(0.0, "never")
        match = re.fullmatch(r"\s*([0-9][0-9_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Z]+|%)\s*", str(text))
        if match is None:
            return None
        number, word = match.groups()
        unit, factor = _SPELLINGS.get(word.lower().removesuffix("s"), (None, 1.0))
        amount = float(number.replace("_", "")) * factor
        return None if unit is None or not math.isfinite(amount) else cls(amount, unit)

    def __str__(self) -> str:
        if self.unit == "never":
            return "never"
        number = f"{self.amount:.0f}" if self.amount == int(self.amount) and self.amount < 1e9 else f"{self.amount!r}"
        word = "%" if self.unit == "percent" else self.unit
        return f"{number} {word.removesuffix('s') if self.amount == 1 else word}"


def _alternatives(units: tuple[Unit, ...]) -> str:
    words = [_WORDS[unit] for unit in units]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


@dataclass(frozen=True)
class _In:
    """Tells pydantic to accept a quantity in one of `units` that is more than `least`."""

    units: tuple[Unit, ...]
    least: float = 0.0

    def read(self, text: Any) -> Quantity:
        quantity = Quantity.parse(text, self.units)
        if quantity.unit != "never" and quantity.amount <= self.least:
            raise ValueError(f"{text!r} must be more than {max(self.least, 0):g}")
        if quantity.unit == "percent" and quantity.amount > 100:
            raise ValueError(f"{text!r} is more than the whole run: write at most 100 %")
        return quantity

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        del schema, handler
        return {"type": "string", "examples": [_WORDS[unit].split("'")[1] for unit in self.units]}


Duration = Annotated[Quantity, _In(("epochs", "steps", "seconds", "tokens"))]
Interval = Annotated[Quantity, _In(("epochs", "steps", "seconds", "never"))]
Spacing = Annotated[Quantity, _In(("epochs", "steps"))]
Warmup = Annotated[Quantity, _In(("steps", "epochs", "percent"), least=-1)]
