"""Bars with a range, in a terminal and as SVG. Pure functions: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stoker.report.charts import colour
from stoker.report.figures import number
from stoker.report.scale import nice_ticks, tick_labels

SOLID, SHADED, FAINT = "█", "▒", "░"
"""Up to the low end, from there to the expected value, and up to the high end."""
_ASCII = str.maketrans({SOLID: "#", SHADED: "=", FAINT: "-"})

WIDTH, NAME_WIDTH, VALUE_WIDTH = 720, 210, 150
ROW, BAR, AXIS = 30, 16, 26
"""Heights in user units: of a row, of the bar in it, of the axis below."""


@dataclass(frozen=True)
class Bar:
    """A value that is expected, and how far it may be off: not at all where both ends are the same.

    Attributes:
        expected: The value; None where there is none.
        note: What to say instead of the value where there is none.
        colour: Index into the palette.
    """

    name: str
    expected: float | None
    low: float = 0.0
    high: float = 0.0
    note: str = ""
    colour: int = 0


def text_bars(bars: Sequence[Bar], *, width: int = 40, unicode: bool = True) -> list[str]:
    """One line for each bar: its name, the bar, the expected value and the range.

    >>> text_bars([Bar("A", 10, 5, 20), Bar("B", None, note="does not fit")], width=8)
    ['A  ██▒▒░░░░  10 (5 to 20)', 'B            does not fit']
    """
    most = max((bar.high for bar in bars if bar.expected is not None), default=0.0) or 1.0
    names = max((len(bar.name) for bar in bars), default=0)
    lines = [f"{bar.name:<{names}}  {_blocks(bar, most, width):<{width}}  {_value(bar)}" for bar in bars]
    return lines if unicode else [line.translate(_ASCII) for line in lines]


def bar_chart(title: str, bars: Sequence[Bar], *, key: str) -> str:
    """Horizontal bars as SVG: a solid bar up to the expected value, a line from the low end to the high end.

    Args:
        title: For people who do not see the chart, together with a description in words.
        bars: From top to bottom.
        key: Makes the identifiers unique in the page.
    """
    most = max((bar.high for bar in bars if bar.expected is not None), default=0.0) or 1.0
    ticks = nice_ticks(0.0, most, 4)
    height = ROW * len(bars) + AXIS
    words = " ".join(f"{bar.name}: {_value(bar)}." for bar in bars)
    rows = "".join(_row(bar, index, ticks[-1]) for index, bar in enumerate(bars))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words)}</desc>'
        f"{_axis(ticks, height)}{rows}</svg>"
    )


def rough(value: float | None) -> str:
    """A figure of which three digits count: what is given as a range has no more.

    >>> rough(30673.2), rough(0.41234), rough(None)
    ('30,700', '0.412', '–')
    """
    return number(value if value is None else float(f"{value:.3g}"), 3)


def with_range(expected: str, low: str, high: str) -> str:
    """A written value with its ends, where those read otherwise than the value.

    >>> with_range("10", "5", "20"), with_range("10", "10", "10")
    ('10 (5 to 20)', '10')
    """
    return expected if low == high == expected else f"{expected} ({low} to {high})"


def _blocks(bar: Bar, most: float, width: int) -> str:
    if bar.expected is None:
        return ""
    ends = [round(value / most * width) for value in (bar.low, bar.expected, bar.high)]
    return SOLID * ends[0] + SHADED * (ends[1] - ends[0]) + FAINT * (ends[2] - ends[1])


def _value(bar: Bar) -> str:
    if bar.expected is None:
        return bar.note
    return with_range(rough(bar.expected), rough(bar.low), rough(bar.high))


def _x(value: float, most: float) -> float:
    return NAME_WIDTH + value / most * (WIDTH - NAME_WIDTH - VALUE_WIDTH)


def _axis(ticks: Sequence[float], height: int) -> str:
    parts = ['<g class="axes">']
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        x = _x(tick, ticks[-1])
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - AXIS}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    return "".join(parts) + "</g>"


def _row(bar: Bar, index: int, most: float) -> str:
    middle = index * ROW + ROW / 2
    name = f'<text x="{NAME_WIDTH - 10}" y="{middle}" dy="0.33em" text-anchor="end">{escape(bar.name)}</text>'
    if bar.expected is None:
        note = f'<text x="{NAME_WIDTH + 6}" y="{middle}" dy="0.33em">{escape(bar.note)}</text>'
        return f'<g class="axes">{name}{note}</g>'
    value = f'<text x="{_x(bar.high, most) + 8:.1f}" y="{middle}" dy="0.33em">{escape(_value(bar))}</text>'
    return (
        f'<g class="axes">{name}{value}</g>'
        f'<rect x="{NAME_WIDTH}" y="{middle - BAR / 2}" width="{_x(bar.expected, most) - NAME_WIDTH:.1f}"'
        f' height="{BAR}" rx="2" fill="{colour(bar.colour)}"/>{_whisker(bar, middle, most)}'
    )


def _whisker(bar: Bar, middle: float, most: float) -> str:
    """From the low end to the high end; nothing where there is no range."""
    if bar.low == bar.high:
        return ""
    left, right = _x(bar.low, most), _x(bar.high, most)
    return (
        f'<path d="M{left:.1f} {middle}H{right:.1f}M{left:.1f} {middle - 5}v10M{right:.1f} {middle - 5}v10"'
        ' stroke="currentColor" stroke-width="1.5" fill="none"/>'
    )
