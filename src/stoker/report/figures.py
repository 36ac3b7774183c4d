"""How figures and values are written for people: one place, so that page and terminal agree."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

UNKNOWN = "–"
"""What stands where a value was not recorded; never a zero."""

_CONTROL = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def clean(text: str) -> str:
    r"""The text without terminal escapes, control characters and lone surrogates; line ends stay.

    >>> clean("\x1b[31mout of memory\x1b[0m")
    'out of memory'
    """
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return _CONTROL.sub("", whole.replace("\r\n", "\n").replace("\r", "\n"))


def number(value: float | None, digits: int = 4) -> str:
    """A figure with `digits` significant digits, plain where that is readable.

    >>> number(0.912345), number(1281167), number(0.00003), number(None)
    ('0.9123', '1,281,167', '3e-05', '–')
    """
    if value is None:
        return UNKNOWN
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.{digits}g}"
    if size >= 10 ** (digits - 1) or (size >= 1 and float(value).is_integer()):
        return f"{value:,.0f}"
    return f"{value:.{digits}g}"


def short(value: float, digits: int = 3) -> str:
    """A figure for an axis: `12k` instead of `12,000`, `1e-5` instead of `1e-05`.

    >>> short(12000), short(0.25), short(1e-5), short(0)
    ('12k', '0.25', '1e-5', '0')
    """
    size = abs(value)
    if 0 < size < 1e-3 or size >= 1e15:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        plain = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return f"{plain}e{int(exponent)}"
    for unit, letter in _UNITS:
        if size >= unit:
            return f"{short(value / unit, digits)}{letter}"
    if size >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def percent(share: float) -> str:
    """A share between 0 and 1 as percent, never rounded to a zero that it is not.

    >>> percent(0.284), percent(0.004), percent(0)
    ('28 %', '0.4 %', '0 %')
    """
    value = 100 * share
    if value == 0 or value >= 9.95:
        return f"{value:.0f} %"
    return "< 0.1 %" if value < 0.05 else f"{value:.1f} %"


def duration(seconds: float | None) -> str:
    """A span of time in its two largest units.

    >>> duration(0.0123), duration(75), duration(9000), duration(200000)
    ('12.3 ms', '1 min 15 s', '2 h 30 min', '2 d 7 h')
    """
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms" if seconds > 0 else "0 s"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {name}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def data_size(size: float) -> str:
    """A number of bytes in binary units.

    >>> data_size(137438953472)
    '128 GiB'
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"
        size /= 1024
    raise AssertionError("unreachable: the last unit takes every size")


def moment(time: float | None) -> str:
    """Unix seconds as a date in UTC, to the second.

    >>> moment(0)
    '1970-01-01 00:00:00 UTC'
    """
    if time is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a clock that was never set
        return UNKNOWN


def counted(names: Iterable[str]) -> str:
    """Equal names counted together, in order of appearance.

    >>> counted(["NVIDIA H200", "NVIDIA H200", "NVIDIA A2"])
    '2 × NVIDIA H200, NVIDIA A2'
    """
    counts = Counter(names)
    return ", ".join(f"{count} × {name}" if count > 1 else name for name, count in counts.items())


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "step"), plural(12000, "step")
    ('1 step', '12,000 steps')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def value_text(value: object) -> str:
    """One setting as it would stand in YAML.

    >>> value_text(True), value_text(None), value_text([1, "a"]), value_text(0.1)
    ('true', 'null', '[1, a]', '0.1')
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = cast(Mapping[object, object], value).items()
        return "{" + ", ".join(f"{clean(str(key))}: {value_text(inner)}" for key, inner in pairs) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return "[" + ", ".join(value_text(inner) for inner in cast(Sequence[object], value)) + "]"
    return clean(str(value))


def flatten(tree: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """A nested mapping as dotted keys with written values, in the order of the mapping.

    >>> flatten({"data": {"workers": 4, "shuffle": True}, "seed": 0})
    {'data.workers': '4', 'data.shuffle': 'true', 'seed': '0'}
    """
    flat: dict[str, str] = {}
    for key, value in tree.items():
        name = f"{prefix}{clean(str(key))}"
        if isinstance(value, Mapping) and value:
            flat.update(flatten(cast(Mapping[str, object], value), f"{name}."))
        else:
            flat[name] = value_text(value)
    return flat
