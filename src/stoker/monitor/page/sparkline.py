"""The last hour of one series as a small SVG: values in, text out. The page's style gives the looks.

Nothing here uses a `style` attribute: the page's content security policy would ignore it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby

from stoker.monitor.history import thin

POINTS = 120
"""A phone shows a sparkline on about 150 pixels, a desktop on 140."""
HEIGHT = 32
PAD = 2
"""Keeps the stroke of a value at either end of the scale inside the picture."""


def sparkline(values: Sequence[float], *, low: float, high: float, colour: int, title: str) -> str:
    """A line with a faint area below it, and a dot at the present.

    Args:
        values: Equally spaced in time, the oldest first; NaN is a gap.
        low: The value at the lower edge.
        high: The value at the upper edge; values outside are drawn at the edges.
        colour: Index into the page's palette, `--s0` to `--s7`.
        title: What the line says, for people who point at it or do not see it.
    """
    places = [_place(value, low, high) for value in thin(values, POINTS)]
    stretches = _stretches(places)
    line = "".join("M" + _points(stretch) + "h0" * (len(stretch) == 1) for stretch in stretches)
    area = "".join(f"M{stretch[0][0]} {HEIGHT}L{_points(stretch)}V{HEIGHT}z" for stretch in stretches)
    parts = [f'<path class="area" d="{area}"/><path class="line" d="{line}"/>' if stretches else ""]
    if places and places[-1] is not None:
        parts.append(f'<path class="now" d="M{len(places) - 1} {places[-1]}h0"/>')
    width = max(1, len(places) - 1)
    return (
        f'<svg class="spark s{colour}" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none" role="img">'
        f'<title>{escape(title)}</title><path class="base" d="M0 {HEIGHT}H{width}"/>{"".join(parts)}</svg>'
    )


def _place(value: float, low: float, high: float) -> int | None:
    """Height of a value in whole units from the top: a third of a pixel, and half the text of decimals."""
    if not math.isfinite(value):
        return None
    share = (value - low) / (high - low) if high > low else 0.5
    return round(HEIGHT - PAD - min(1.0, max(0.0, share)) * (HEIGHT - 2 * PAD))


def _points(stretch: Sequence[tuple[int, int]]) -> str:
    """The corners: between them a flat line needs no points, which halves the page."""
    last = len(stretch) - 1
    return " ".join(
        f"{x} {y}"
        for place, (x, y) in enumerate(stretch)
        if place in (0, last) or not stretch[place - 1][1] == y == stretch[place + 1][1]
    )


def _stretches(places: Sequence[int | None]) -> list[list[tuple[int, int]]]:
    """Runs of neighbours without a gap, as points."""
    points = [(x, y) for x, y in enumerate(places)]
    return [
        [(x, y) for x, y in stretch if y is not None]
        for known, stretch in groupby(points, key=lambda point: point[1] is not None)
        if known
    ]
