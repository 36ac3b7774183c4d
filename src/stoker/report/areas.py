"""Stacked areas over a sequence of moments, as SVG. Pure functions: values in, text out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from stoker.report.charts import colour
from stoker.report.figures import number
from stoker.report.panels import LegendEntry, Panel
from stoker.report.scale import nice_ticks, tick_labels

WIDTH, HEIGHT = 560, 290
LEFT, RIGHT, TOP, BOTTOM = 46, 8, 24, 26
LETTER = 10
"""Width of a letter at the size that a phone shows, in user units."""
INK = -1
"""Colour of lines across: that of the text."""


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


@dataclass(frozen=True)
class Stack:
    """What an area chart shows.

    Attributes:
        places: Of the values on the horizontal axis, rising from 0 to `end`.
        end: Of the horizontal axis.
        layers: From the bottom.
        levels: Lines across.
        parts: Parts of the horizontal axis, in their order, named above the plot.
        groups: Larger parts, named below it.
        mark: Index of the place that is marked as the peak; None for none.
    """

    places: Sequence[float]
    end: float
    layers: Sequence[Layer]
    levels: Sequence[Level] = ()
    parts: Sequence[Stretch] = ()
    groups: Sequence[Stretch] = ()
    mark: int | None = None

    def tops(self) -> list[list[float]]:
        """Upper edge of each layer."""
        tops: list[list[float]] = []
        below = [0.0] * len(self.places)
        for layer in self.layers:
            below = [one + other for one, other in zip(below, layer.values, strict=True)]
            tops.append(below)
        return tops


def area_panel(title: str, stack: Stack, *, key: str, unit: str, note: str = "") -> Panel:
    """The chart with a legend that reads its values: those of the marked place, or where a reader points.

    Args:
        title: The heading, also for people who do not see the chart.
        stack: What it shows; layers that are empty throughout are left out.
        key: Makes the identifiers unique in the page.
        unit: Of the values.
        note: Which place the legend shows while none is pointed at.
    """
    at = 0 if stack.mark is None else stack.mark
    shown = [layer for layer in stack.layers if any(layer.values)]
    legend = [LegendEntry(one.name, _at(one.values, at), colour(one.colour), dots=True) for one in shown]
    legend += [
        LegendEntry(one.name, _at(one.values, at), "var(--ink)", dots=False, dashed=one.dashed) for one in stack.levels
    ]
    return Panel(title, area_chart(title, stack, key=key, unit=unit), tuple(legend), note)


def area_chart(title: str, stack: Stack, *, key: str, unit: str) -> str:
    """Layers stacked on each other, lines across, and the parts of the axis named above and below."""
    tops, levels = stack.tops(), stack.levels
    highest = max([*(tops[-1] if tops else ()), *(value for level in levels for value in level.values)], default=0.0)
    ticks = nice_ticks(0.0, highest or 1.0, 5)
    plot = _Plot(stack.end or 1.0, ticks[-1])
    words = ", ".join(f"{layer.name} at most {max(layer.values, default=0):.3g} {unit}" for layer in stack.layers)
    body = [_axes(ticks, plot, unit), _parts(stack, plot), _groups(stack, plot)]
    lower: Sequence[float] = [0.0] * len(stack.places)
    for layer, upper in zip(stack.layers, tops, strict=True):
        if any(layer.values):
            body.append(f'<path d="{_area(stack.places, lower, upper, plot)}" fill="{colour(layer.colour)}"/>')
        lower = upper
    body += [_level(level, stack.places, plot) for level in levels]
    if stack.mark is not None and tops:
        body.append(_mark(stack.places[stack.mark], tops[-1][stack.mark], plot, unit))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-t {key}-d"'
        f' data-chart="{escape(_read_out(stack, tops, plot))}"><title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(words)}</desc>{"".join(body)}</svg>'
    )


@dataclass(frozen=True)
class _Plot:
    end: float
    highest: float

    def x(self, place: float) -> float:
        return LEFT + place / self.end * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return HEIGHT - BOTTOM - value / self.highest * (HEIGHT - TOP - BOTTOM)


def _at(values: Sequence[float], index: int) -> str:
    return number(values[min(index, len(values) - 1)]) if values else ""


def _axes(ticks: Sequence[float], plot: _Plot, unit: str) -> str:
    parts = ['<g class="axes">', f'<text x="{LEFT - 8}" y="{TOP - 8}" text-anchor="end">{escape(unit)}</text>']
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        y = plot.y(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if tick < ticks[-1]:  # there stands the unit
            parts.append(f'<text x="{LEFT - 8}" y="{y:.1f}" dy="0.33em" text-anchor="end">{label}</text>')
    return "".join(parts) + "</g>"


def _sides(stretches: Sequence[Stretch], plot: _Plot) -> list[tuple[str, float, float]]:
    """Name, left and right of each stretch."""
    ends = [*(plot.x(one.start) for one in stretches), plot.x(plot.end)]
    return [(one.name, left, right) for one, (left, right) in zip(stretches, pairwise(ends), strict=True)]


def _parts(stack: Stack, plot: _Plot) -> str:
    """A line where each part begins; its name where there is room, else its initial."""
    found: list[str] = []
    for name, left, right in _sides(stack.parts, plot):
        room = right - left
        if room < 1:
            continue
        found.append(f'<path class="guide" d="M{left:.1f} {TOP - 16}V{HEIGHT - BOTTOM}"/>')
        label = name if room >= LETTER * len(name) + 4 else name[:1].upper() if room >= LETTER + 6 else ""
        if label:
            found.append(f'<g class="axes"><text x="{left + 4:.1f}" y="{TOP - 6}">{escape(label)}</text></g>')
    return "".join(found)


def _groups(stack: Stack, plot: _Plot) -> str:
    return "".join(
        f'<g class="axes"><path class="tick" d="M{left:.1f} {HEIGHT - BOTTOM}v6"/>'
        f'<text x="{(left + right) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">{escape(name)}</text></g>'
        for name, left, right in _sides(stack.groups, plot)
        if right - left >= LETTER * len(name)
    )


def _area(places: Sequence[float], lower: Sequence[float], upper: Sequence[float], plot: _Plot) -> str:
    """Forward along the upper edge and back along the lower one, in steps: a value holds until the next one."""
    there = _steps(places, upper, plot)
    back = _steps(places, lower, plot)[::-1]
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in (*there, *back)) + "z"


def _steps(places: Sequence[float], values: Sequence[float], plot: _Plot) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for (place, until), value in zip(pairwise([*places, plot.end]), values, strict=True):
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


def _mark(place: float, value: float, plot: _Plot, unit: str) -> str:
    x, y = plot.x(place), plot.y(value)
    right = x > (LEFT + WIDTH) / 2
    text = (
        f'x="{x + (-9 if right else 9):.1f}" y="{max(TOP + 12, y - 5):.1f}" text-anchor="{"end" if right else "start"}"'
    )
    return (
        f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'
        f'<g class="axes"><text class="halo" {text}>peak {escape(number(value, 3))} {escape(unit)}</text></g>'
    )


def _read_out(stack: Stack, tops: Sequence[Sequence[float]], plot: _Plot) -> str:
    """What the page's script needs: the plot's place, the axes, the names of the parts, and what to read where."""
    layers = [
        {"colour": layer.colour, "points": _triples(stack.places, layer.values, top)}
        for layer, top in zip(stack.layers, tops, strict=True)
        if any(layer.values)
    ]
    levels = [{"colour": INK, "points": _triples(stack.places, held, held)} for held in _lengths(stack)]
    data = {
        "plot": [LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM],
        "x": [0, plot.end],
        "y": [0, plot.highest],
        "log": False,
        "parts": [[one.start, one.name] for one in _named(stack)],
        "series": [*layers, *levels],
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _named(stack: Stack) -> list[Stretch]:
    """Parts with the group that they begin in."""
    found: list[Stretch] = []
    for part in stack.parts:
        group = next((one.name for one in reversed(stack.groups) if one.start <= part.start), "")
        found.append(Stretch(f"{group}, {part.name}" if group else part.name, part.start))
    return found


def _triples(places: Sequence[float], values: Sequence[float], tops: Sequence[float]) -> list[list[float]]:
    """Place, value, and the height at which it is drawn."""
    return [[place, _four(value), _four(top)] for place, value, top in zip(places, values, tops, strict=True)]


def _lengths(stack: Stack) -> list[Sequence[float]]:
    """Values of the levels, with one for each place."""
    count = len(stack.places)
    return [one.values if len(one.values) == count else [*one.values] * count for one in stack.levels]


def _four(value: float) -> float:
    """Four digits are what a reader is shown."""
    return float(f"{value:.4g}")
