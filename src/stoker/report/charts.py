"""Line charts and stacked bars as SVG. Pure functions: points in, text out; the page's CSS gives the looks.

Colours are CSS variables (`--s0` to `--s7`) with a fallback for light paper. Most are of the palette of Okabe
and Ito, made so that people with any colour vision can tell them apart (https://jfly.uni-koeln.de/color/).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby

from stoker.report.curve import Point
from stoker.report.figures import number, percent, plural, short
from stoker.report.scale import Scale, fit_scale, fit_steps, tick_labels

PALETTE = ("#0072b2", "#d55e00", "#009e73", "#aa4499", "#e69f00", "#56b4e9", "#8c6d1f", "#666666")
WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 12, 38
"""Margins around the plot, in user units; the left one holds labels of six characters."""


@dataclass(frozen=True)
class Line:
    """One line of a chart.

    Attributes:
        name: What the legend says.
        points: The values, in rising steps; a NaN value is a gap.
        trend: A smoothed line; where there is one, `points` are drawn faintly behind it.
        read: The points of the hover read-out; by default `points`.
        width: How many rows each read-out point is the mean of.
        dots: Whether each point is marked, as for evaluations.
        colour: Index into the palette; from the ninth on, lines are dashed.
        low: The low ends of a range around the points, which is shaded; at the steps of `high`.
        high: Its high ends.
    """

    name: str
    points: Sequence[Point]
    trend: Sequence[Point] = ()
    read: Sequence[Point] = ()
    width: int = 1
    dots: bool = False
    colour: int = 0
    low: Sequence[Point] = ()
    high: Sequence[Point] = ()

    @property
    def shown(self) -> Sequence[Point]:
        """The points of the read-out."""
        return self.read or self.points

    @property
    def dashed(self) -> bool:
        """Whether its colour is used a second time."""
        return self.colour >= len(PALETTE)


@dataclass(frozen=True)
class Across:
    """The lower axis of a line chart.

    Attributes:
        name: What stands beside its labels.
        said: One of its places in words.
        ticks: Places that are labelled; round ones by default.
        log: Whether it is logarithmic.
    """

    name: str = "step"
    said: str = "step {}"
    ticks: Sequence[float] = ()
    log: bool = False

    def fit(self, places: Iterable[float]) -> Scale:
        """The axis that begins and ends with the data."""
        scale = fit_steps(places)
        return replace(scale, log=self.log and scale.low > 0)


STEPS = Across()


@dataclass(frozen=True)
class Part:
    """One part of a stacked bar: a value of at least zero, in any unit."""

    name: str
    value: float
    colour: int


def colour(index: int) -> str:
    """The CSS colour of an index: a variable of the page, with a fallback.

    >>> colour(1)
    'var(--s1,#d55e00)'
    """
    slot = index % len(PALETTE)
    return f"var(--s{slot},{PALETTE[slot]})"


def line_chart(
    title: str,
    lines: Sequence[Line],
    *,
    key: str,
    from_zero: bool = False,
    log: bool | None = None,
    over: Across = STEPS,
) -> str:
    """A line chart, over steps if nothing else is said.

    Args:
        title: For people who do not see the chart, together with a description in words.
        lines: Lines without points are left out.
        key: Makes the identifiers unique in the page.
        from_zero: Begin a linear axis at zero.
        log: Logarithmic axis; by default where the values ask for it, see `fit_scale`.
        over: The lower axis.
    """
    drawn = [line for line in lines if line.points]
    across = over.fit(point.step for line in drawn for point in line.points)
    values = (point.value for line in drawn for point in (*line.points, *line.low, *line.high))
    up = fit_scale(values, from_zero=from_zero, log=log)
    body = [_axes(across, up, over), *(_drawn_line(line, across, up) for line in drawn), _gaps(drawn, across)]
    words = " ".join(_in_words(line, over) for line in drawn) or "No values."
    axis = " Logarithmic axis." if up.log else ""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{key}-t {key}-d"'
        f' data-chart="{escape(_read_out(drawn, across, up, over))}">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words + axis)}</desc>'
        f"{''.join(body)}</svg>"
    )


def stacked_bar(title: str, parts: Sequence[Part], *, key: str, whole: float | None = None) -> str:
    """One horizontal bar, divided in proportion to the parts' values; empty parts are left out.

    What the parts leave over of `whole`, where that is given, stays empty.
    """
    total = sum(part.value for part in parts) if whole is None else whole
    shown = [part for part in parts if part.value > 0]
    words = ", ".join(f"{part.name} {percent(part.value / total)}" for part in shown) or "No values."
    bars: list[str] = []
    left = 0.0
    for part in shown:
        width = part.value / total * WIDTH
        label = escape(f"{part.name}: {percent(part.value / total)}")
        bars.append(
            f'<rect x="{left:.2f}" y="0" width="{width:.2f}" height="24" fill="{colour(part.colour)}">'
            f"<title>{label}</title></rect>"
        )
        left += width
    return (
        f'<svg class="bar" viewBox="0 0 {WIDTH} 24" preserveAspectRatio="none" role="img"'
        f' aria-labelledby="{key}-t {key}-d"><title id="{key}-t">{escape(title)}</title>'
        f'<desc id="{key}-d">{escape(words)}</desc>{"".join(bars)}</svg>'
    )


def _x(across: Scale, step: float) -> float:
    return LEFT + across.place(step) * (WIDTH - LEFT - RIGHT)


def _y(up: Scale, value: float) -> float:
    return HEIGHT - BOTTOM - up.place(value) * (HEIGHT - TOP - BOTTOM)


def _axes(across: Scale, up: Scale, over: Across) -> str:
    parts = ['<g class="axes">']
    rows = up.ticks()
    for tick, label in zip(rows, tick_labels(rows), strict=True):
        y = _y(up, tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y:.1f}" dy="0.33em" text-anchor="end">{label}</text>')
    parts.append(f'<text x="{LEFT - 8}" y="{HEIGHT - BOTTOM + 24}" text-anchor="end">{escape(over.name)}</text>')
    columns = over.ticks or [tick for tick in across.ticks(6) if tick == int(tick)]  # there is no half step
    for tick, label in zip(columns, tick_labels(columns), strict=True):
        x = _x(across, tick)
        anchor = "end" if x > WIDTH - RIGHT - 16 else "middle"
        parts.append(f'<path class="tick" d="M{x:.1f} {HEIGHT - BOTTOM}v4"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 24}" text-anchor="{anchor}">{label}</text>')
    return "".join(parts) + "</g>"


def _drawn_line(line: Line, across: Scale, up: Scale) -> str:
    dash = ' stroke-dasharray="6 4"' if line.dashed else ""
    parts = [f'<g class="line" stroke="{colour(line.colour)}" fill="{colour(line.colour)}"{dash}>']
    if line.low:
        parts.append(f'<path class="band" d="{_band(line, across, up)}"/>')
    parts.append(f'<path class="{"raw" if line.trend else "main"}" d="{_path(line.points, across, up)}"/>')
    if line.trend:
        parts.append(f'<path class="main" d="{_path(line.trend, across, up)}"/>')
    if line.dots:
        radius = 3.5 if len(line.points) <= 60 else 2
        places = ((_x(across, point.step), _y(up, point.value)) for point in line.points)
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>' for x, y in places if not math.isnan(y)]
    return "".join(parts) + "</g>"


def _band(line: Line, across: Scale, up: Scale) -> str:
    """Along the high ends and back along the low ones."""
    around = (*line.high, *reversed(line.low))
    return "M" + "L".join(f"{_x(across, point.step):.1f} {_y(up, point.value):.1f}" for point in around) + "z"


def _path(points: Sequence[Point], across: Scale, up: Scale) -> str:
    """Straight strokes between neighbours; a gap lifts the pen, and a lone point becomes a dot."""
    words: list[str] = []
    down = False
    for point in points:
        x, y = _x(across, point.step), _y(up, point.value)
        if math.isnan(x) or math.isnan(y):
            down = False
            continue
        words.append(f"L{x:.1f} {y:.1f}" if down else f"M{x:.1f} {y:.1f}h0")
        down = True
    return "".join(words)


def _gaps(lines: Sequence[Line], across: Scale) -> str:
    """A mark on the lower axis under each stretch of steps whose values are not finite."""
    marks: list[str] = []
    for line in lines:
        for bad, stretch in groupby(line.points, key=lambda point: not math.isfinite(point.value)):
            if bad:
                steps = [point.step for point in stretch]
                left, right = _x(across, steps[0]), _x(across, steps[-1])
                title = f"{escape(line.name)}: not finite from step {steps[0]:g} to {steps[-1]:g}"
                box = f'x="{left - 2:.1f}" y="{HEIGHT - BOTTOM - 5}" width="{right - left + 4:.1f}" height="5"'
                box = f"M{left - 2:.1f} {HEIGHT - BOTTOM}v-5H{right + 2:.1f}v5z"
                marks.append(f'<path class="bad" d="{box}"><title>{title}</title></path>')
    return "".join(marks)


def _in_words(line: Line, over: Across) -> str:
    finite = [point for point in line.points if math.isfinite(point.value)]
    if not finite:
        return f"{line.name}: no finite value."
    low = min(finite, key=lambda point: point.value)
    high = max(finite, key=lambda point: point.value)
    last = finite[-1]
    gaps = len(line.points) - len(finite)
    words = [
        f"{number(finite[0].value)} at {over.said.format(short(finite[0].step))}",
        f"{number(last.value)} at {over.said.format(short(last.step))}",
        f"lowest {number(low.value)}",
        f"highest {number(high.value)}",
        *([plural(gaps, "gap")] if gaps else []),
    ]
    return f"{line.name}: {', '.join(words)}."


def _read_out(lines: Sequence[Line], across: Scale, up: Scale, over: Across) -> str:
    """What the page's script needs: the plot's place, the axes, and the points of each line."""
    series = [
        {
            "colour": line.colour % len(PALETTE),
            "width": line.width,
            "points": [[point.step, _six(point.value)] for point in line.shown if math.isfinite(point.value)],
        }
        for line in lines
    ]
    data = {
        "plot": [LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM],
        "x": [across.low, across.high],
        "across": across.log,
        "said": over.said,
        "y": [up.low, up.high],
        "log": up.log,
        "series": series,
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def _six(value: float) -> float:
    """Six digits are more than a reader wants, and keep the page small."""
    return float(f"{value:.6g}")
