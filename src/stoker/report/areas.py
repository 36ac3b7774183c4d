"""Stacked areas over a sequence of moments, as SVG. Pure functions: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stoker.report.charts import colour
from stoker.report.scale import nice_ticks, tick_labels

WIDTH, HEIGHT = 720, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 22, 8
LEGEND_ROW = 20
NARROW = 34
"""Width below which a stretch is not named above the plot, in user units."""


@dataclass(frozen=True)
class Layer:
    """One layer of the stack, from the bottom: a value for each place."""

    name: str
    values: Sequence[float]
    colour: int


@dataclass(frozen=True)
class Level:
    """A line across: at a value for each place, or at the same value for all where there is but one."""

    name: str
    values: Sequence[float]
    dashed: bool = False


@dataclass(frozen=True)
class Stretch:
    """A named part of the horizontal axis, from `start` to where the next one starts."""

    name: str
    start: float


def area_chart(
    title: str,
    places: Sequence[float],
    layers: Sequence[Layer],
    *,
    key: str,
    unit: str,
    levels: Sequence[Level] = (),
    stretches: Sequence[Stretch] = (),
    end: float,
    mark: float | None = None,
) -> str:
    """Layers stacked on each other, lines across, and the parts of the axis named above.

    Args:
        title: For people who do not see the chart, together with a description in words.
        places: Of the values on the horizontal axis, from 0 to `end`.
        layers: From the bottom.
        key: Makes the identifiers unique in the page.
        unit: Of the values.
        levels: Lines across.
        stretches: Parts of the horizontal axis, in their order.
        end: Of the horizontal axis.
        mark: Place of a vertical line, called the peak.
    """
    tops = _tops(layers, len(places))
    highest = max([*(tops[-1] if tops else ()), *(value for level in levels for value in level.values)], default=0.0)
    ticks = nice_ticks(0.0, highest or 1.0, 5)
    plot = _Plot(end or 1.0, ticks[-1])
    words = ", ".join(f"{layer.name} at most {max(layer.values, default=0):.3g} {unit}" for layer in layers)
    legend, rows = _legend(layers, levels)
    body = [_axes(ticks, plot, unit), _stretches(stretches, end, plot)]
    lower: Sequence[float] = [0.0] * len(places)
    for layer, upper in zip(layers, tops, strict=True):
        if any(layer.values):
            body.append(f'<path d="{_area(places, lower, upper, plot)}" fill="{colour(layer.colour)}"/>')
        lower = upper
    body += [_level(level, places, plot) for level in levels]
    if mark is not None:
        x = plot.x(mark)
        body.append(f'<path class="guide" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        anchor = "end" if x > WIDTH - 60 else "start"
        body.append(f'<g class="axes"><text x="{x + (4 if anchor == "start" else -4):.1f}" y="{TOP + 12}"'
                    f' text-anchor="{anchor}">peak</text></g>')  # fmt: skip
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT + rows * LEGEND_ROW + 8}" role="img"'
        f' aria-labelledby="{key}-t {key}-d"><title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(words)}</desc>{"".join(body)}{legend}</svg>'
    )


@dataclass(frozen=True)
class _Plot:
    end: float
    highest: float

    def x(self, place: float) -> float:
        return LEFT + place / self.end * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.highest * (HEIGHT - TOP - BOTTOM)


def _tops(layers: Sequence[Layer], count: int) -> list[list[float]]:
    """Upper edge of each layer."""
    tops: list[list[float]] = []
    below = [0.0] * count
    for layer in layers:
        below = [one + other for one, other in zip(below, layer.values, strict=True)]
        tops.append(below)
    return tops


def _axes(ticks: Sequence[float], plot: _Plot, unit: str) -> str:
    parts = ['<g class="axes">', f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end">{escape(unit)}</text>']
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        y = plot.y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if tick < ticks[-1]:  # there stands the unit
            parts.append(f'<text x="{LEFT - 8}" y="{y:.1f}" dy="0.33em" text-anchor="end">{label}</text>')
    return "".join(parts) + "</g>"


def _stretches(stretches: Sequence[Stretch], end: float, plot: _Plot) -> str:
    parts: list[str] = []
    ends = [*(one.start for one in stretches[1:]), end]
    for one, until in zip(stretches, ends, strict=False):
        left, right = plot.x(one.start), plot.x(until)
        parts.append(f'<path class="guide" d="M{left:.1f} {TOP - 14}V{HEIGHT - BOTTOM}"/>')
        if right - left >= max(NARROW, 7 * len(one.name)):
            parts.append(f'<g class="axes"><text x="{left + 4:.1f}" y="{TOP - 6}">{escape(one.name)}</text></g>')
    return "".join(parts)


def _area(places: Sequence[float], lower: Sequence[float], upper: Sequence[float], plot: _Plot) -> str:
    """Forward along the upper edge and back along the lower one, in steps: a value holds until the next one."""
    there = _steps(places, upper, plot)
    back = _steps(places, lower, plot)[::-1]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (*there, *back)) + "z"


def _steps(places: Sequence[float], values: Sequence[float], plot: _Plot) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for number, (place, value) in enumerate(zip(places, values, strict=True)):
        until = places[number + 1] if number + 1 < len(places) else plot.end
        y = plot.y(value)
        found += [(plot.x(place), y), (plot.x(until), y)]
    return found


def _level(level: Level, places: Sequence[float], plot: _Plot) -> str:
    if len(level.values) == 1:
        y = plot.y(level.values[0])
        points = [(LEFT, y), (WIDTH - RIGHT, y)]
    else:
        points = _steps(places, level.values, plot)
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="6 4"' if level.dashed else ""
    return f'<path d="{path}" fill="none" stroke="currentColor" stroke-width="1.5"{dash}/>'


def _legend(layers: Sequence[Layer], levels: Sequence[Level]) -> tuple[str, int]:
    """What the colours and lines mean, and the rows that it takes below the plot."""
    parts = ['<g class="axes">']
    x, row = float(LEFT), 1
    entries = [(layer.name, layer, None) for layer in layers if any(layer.values)]
    for name, layer, level in [*entries, *((level.name, None, level) for level in levels)]:
        width = 30 + 7 * len(name)
        if x + width > WIDTH:
            x, row = float(LEFT), row + 1
        y = HEIGHT + row * LEGEND_ROW - 4
        if layer is not None:
            parts.append(f'<rect x="{x:.0f}" y="{y - 10}" width="12" height="12" fill="{colour(layer.colour)}"/>')
        else:
            dash = ' stroke-dasharray="4 3"' if level is not None and level.dashed else ""
            parts.append(f'<path d="M{x:.0f} {y - 4}h14" stroke="currentColor" stroke-width="1.5"{dash}/>')
        parts.append(f'<text x="{x + 18:.0f}" y="{y}">{escape(name)}</text>')
        x += width
    return "".join(parts) + "</g>", row
