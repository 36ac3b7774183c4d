"""The texts of a screen in the reader's language, and how values are written with their units."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, cast, get_args

from stoker.report.figures import UNKNOWN, data_size, number

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Unit = Literal["share", "bytes", "celsius", "watts", "joules", "hertz", "rate", "count", "seconds", "plain", "yes"]


@dataclass(frozen=True)
class Words:
    """The texts of one language: `words("run.stalled", run="llama")`.

    Raises:
        KeyError: There is no such text.
    """

    language: Language
    table: Mapping[str, str]

    def __call__(self, key: str, /, **values: object) -> str:
        """The text of a key, with its places filled."""
        return self.table[key].format(**values)

    def steps(self, key: str, /, **values: object) -> tuple[str, ...]:
        """The texts of a list, in order."""
        found: list[str] = []
        while (name := f"{key}.{len(found)}") in self.table:
            found.append(self(name, **values))
        return tuple(found)

    def has(self, key: str) -> bool:
        """Whether there is a text."""
        return key in self.table

    def written(self, value: float | None, unit: Unit) -> str:
        """A value with its unit; a dash where it is unknown, which is never a zero."""
        if value is None:
            return UNKNOWN
        return number(value) if not math.isfinite(value) else _WRITTEN[unit](value, self)

    def span(self, seconds: float) -> str:
        """A span of time in its two largest units."""
        whole = max(0, round(seconds))
        for size, unit, smaller, below in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
            if whole >= size:
                rest = whole % size // smaller
                large = f"{whole // size} {self(f'unit.{unit}')}"
                return f"{large} {rest} {self(f'unit.{below}')}" if rest else large
        return f"{number(seconds, 2) if seconds < 10 else whole} {self('unit.s')}"


@cache
def words_of(language: Language) -> Words:
    """The texts of a language."""
    text = files("stoker.monitor.view").joinpath("texts", f"{language}.toml").read_text(encoding="utf-8")
    return Words(language, _flat(tomllib.loads(text), ""))


def chosen_language(asked: str, accepted: str) -> Language:
    """The language of an answer.

    Args:
        asked: What the address asks for; empty if it says nothing.
        accepted: The header Accept-Language (RFC 9110, section 12.5.4).

    >>> chosen_language("", "fr;q=0.9, zh-CN;q=0.8, en;q=0.7"), chosen_language("en", "zh"), chosen_language("", "")
    ('zh', 'en', 'en')
    """
    wanted = [(1.0, asked)] if asked else [_weighed(part) for part in accepted.split(",")]
    for _, tag in sorted(wanted, key=lambda item: -item[0]):
        for language in LANGUAGES:
            if tag.lower().partition("-")[0] == language:
                return language
    return "en"


def anchor_of(name: str) -> str:
    """Letters and digits that tell one name from another, whatever stands in it."""
    return "n" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def _weighed(part: str) -> tuple[float, str]:
    tag, _, parameter = part.partition(";")
    try:
        return float(parameter.strip().removeprefix("q=") or 1), tag.strip()
    except ValueError:
        return 0.0, tag.strip()


def _flat(value: object, name: str) -> dict[str, str]:
    """Nested tables and lists as dotted keys: `finding.gpu-lost.fix.0`."""
    if isinstance(value, Mapping):
        inner = cast(Mapping[str, object], value).items()
    elif isinstance(value, list):
        inner = ((str(place), item) for place, item in enumerate(cast(list[object], value)))
    else:
        return {name: str(value)}
    flat: dict[str, str] = {}
    for key, item in inner:
        flat.update(_flat(item, f"{name}.{key}" if name else key))
    return flat


def _percent(value: float, _: Words) -> str:
    return f"{100 * value:.0f} %" if value == 0 or value >= 0.01 else f"{100 * value:.1f} %"


_WRITTEN: Mapping[Unit, Callable[[float, Words], str]] = {
    "share": _percent,
    "bytes": lambda value, _: data_size(value),
    "celsius": lambda value, _: f"{value:.0f} °C",
    "watts": lambda value, _: f"{value:,.0f} W" if value < 10_000 else f"{value / 1000:.1f} kW",
    "joules": lambda value, _: f"{value / 3.6e6:,.1f} kWh",
    "hertz": lambda value, _: f"{value / 1e6:,.0f} MHz",
    "rate": lambda value, _: f"{number(value / 1e9, 3)} GB/s" if value >= 1e8 else f"{number(value / 1e6, 3)} MB/s",
    "count": lambda value, _: f"{value:,.0f}",
    "seconds": lambda value, words: words.span(value),
    "plain": lambda value, _: number(value),
    "yes": lambda value, words: words("value.yes" if value else "value.no"),
}
