"""A curve in a terminal: Braille dots where it can show them, stars where it cannot. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

from stoker.report.curve import Point
from stoker.report.figures import short
from stoker.report.scale import Scale, fit_scale, fit_steps

_BLOCKS = "▁▂▃▄▅▆▇█"
_BRAILLE = 0x2800
_DOT = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""Bit of each dot in a Braille character, by column and row (Unicode 16, block Braille Patterns)."""

Grid = list[list[bool]]


def text_plot(points: Sequence[Point], *, width: int, height: int, unicode: bool = True) -> list[str]:
    """Lines of text that draw a curve, with its range on the left and its steps below.

    Args:
        points: Values at rising steps; what is not finite is a gap.
        width: Characters of a line, labels included; at least 20.
        height: Lines of the curve, without the line of steps.
        unicode: Use Braille dots, two by four to a character.

    Returns:
        `height` + 1 lines; none where no value is finite.
    """
    finite = [point for point in points if math.isfinite(point.value)]
    if not finite:
        return []
    up, across = fit_scale(point.value for point in finite), fit_steps(point.step for point in finite)
    labels = _labels(up, height)
    margin = max(map(len, labels.values()))
    columns = max(8, width - margin - 2)
    dots = (2, 4) if unicode else (1, 1)
    grid = _rasterize(points, across, up, columns * dots[0], height * dots[1])
    rows = _braille(grid) if unicode else ["".join("*" if dot else " " for dot in row) for row in grid]
    bar = "│" if unicode else "|"
    lines = [f"{labels.get(index, ''):>{margin}} {bar}{row}".rstrip() for index, row in enumerate(rows)]
    first, last = (f"{finite[end].step:,.0f}" for end in (0, -1))
    steps = f"step {first}"
    return [*lines, f"{'':{margin}}  {steps}{last:>{max(len(last) + 1, columns - len(steps))}}"]


def sparkline(points: Sequence[Point], *, width: int) -> str:
    """A curve in one line of blocks, each the mean of its share of the points; gaps are blanks.

    >>> sparkline([Point(step, value) for step, value in enumerate((3, 2, 1, 1))], width=4)
    '█▅▁▁'
    """
    finite = [point.value for point in points if math.isfinite(point.value)]
    if not finite:
        return ""
    up = fit_scale(finite)
    low, high = up.place(min(finite)), up.place(max(finite))
    count = min(width, len(points))
    edges = [index * len(points) // count for index in range(count + 1)]
    return "".join(_block(points[start:end], up, low, high) for start, end in pairwise(edges))


def _block(points: Sequence[Point], up: Scale, low: float, high: float) -> str:
    places = [place for point in points if not math.isnan(place := up.place(point.value))]
    if not places:
        return " "
    share = (statistics.fmean(places) - low) / (high - low) if high > low else 0.0
    return _BLOCKS[round(share * (len(_BLOCKS) - 1))]


def _labels(up: Scale, height: int) -> dict[int, str]:
    """The range of the axis at its ends, and its middle where there is room."""
    rows = {0: 1.0, height - 1: 0.0}
    if height >= 7:
        rows[height // 2] = 1 - (height // 2 + 0.5) / height
    return {row: short(_value_at(up, share)) for row, share in rows.items()}


def _value_at(up: Scale, share: float) -> float:
    if up.log:
        return up.low * (up.high / up.low) ** share
    return up.low + share * (up.high - up.low)


def _rasterize(points: Sequence[Point], across: Scale, up: Scale, columns: int, rows: int) -> Grid:
    grid: Grid = [[False] * columns for _ in range(rows)]
    before: tuple[int, int] | None = None
    for point in points:
        x, y = across.place(point.step), up.place(point.value)
        if math.isnan(x) or math.isnan(y):
            before = None
            continue
        here = round(x * (columns - 1)), round((1 - y) * (rows - 1))
        for column, row in _stroke(before or here, here):
            grid[row][column] = True
        before = here
    return grid


def _stroke(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """The dots of a straight line, both ends included."""
    length = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (
            round(start[0] + (end[0] - start[0]) * part / length),
            round(start[1] + (end[1] - start[1]) * part / length),
        )
        for part in range(length + 1)
    ]


def _braille(grid: Grid) -> list[str]:
    columns = range(0, len(grid[0]), 2)
    return ["".join(_cell(grid, top, left) for left in columns) for top in range(0, len(grid), 4)]


def _cell(grid: Grid, top: int, left: int) -> str:
    bits = sum(_DOT[x][y] for x in range(2) for y in range(4) if grid[top + y][left + x])
    return chr(_BRAILLE + bits) if bits else " "
