"""Spans of time on rows, as SVG: what was busy when. Pure functions: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stoker.report.charts import colour
from stoker.report.figures import duration, percent
from stoker.report.scale import nice_ticks, tick_labels

WIDTH, LEFT, RIGHT = 720, 120, 12
ROW, BAR, AXIS, LEGEND = 30, 20, 30, 22
"""Heights in user units: of a row, of the spans in it, of the axis below, of the legend."""


@dataclass(frozen=True)
class Drawn:
    """A span.

    Attributes:
        row: Index of its row.
        start: Seconds; so is `end`.
        name: What is shown of it when it is pointed at.
        kind: Index into the names of the legend, and into the palette.
    """

    row: int
    start: float
    end: float
    name: str
    kind: int


def span_chart(title: str, rows: Sequence[str], spans: Sequence[Drawn], kinds: Sequence[str], *, key: str) -> str:
    """Rows of spans over milliseconds, each row with the share of the time in which it is busy.

    Args:
        title: For people who do not see the chart, together with a description in words.
        rows: Names of the rows, from above.
        spans: In any order; those of a row do not overlap.
        kinds: Names of the colours; those that occur are explained below.
        key: Makes the identifiers unique in the page.
    """
    end = max((span.end for span in spans), default=0.0) or 1.0
    ticks = nice_ticks(0.0, 1e3 * end, 6)
    last = ticks[-1] / 1e3
    busy = [sum(span.end - span.start for span in spans if span.row == row) / end for row in range(len(rows))]
    words = ", ".join(f"{name} busy {percent(share)}" for name, share in zip(rows, busy, strict=True))
    height = ROW * len(rows) + AXIS + LEGEND
    parts = [_axis(ticks, ROW * len(rows), last)]
    for row, name in enumerate(rows):
        label = f'<text x="{LEFT - 8}" y="{ROW * row + ROW / 2}" dy="0.33em" text-anchor="end">{escape(name)}</text>'
        parts.append(f'<g class="axes">{label}</g>')
    parts += [_span(span, last) for span in spans]
    parts.append(_legend(kinds, {span.kind for span in spans}, ROW * len(rows) + AXIS + 14))
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words)}</desc>{"".join(parts)}</svg>'
    )


def _x(seconds: float, last: float) -> float:
    return LEFT + seconds / last * (WIDTH - LEFT - RIGHT)


def _axis(ticks: Sequence[float], bottom: int, last: float) -> str:
    parts = ['<g class="axes">']
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        x = _x(tick / 1e3, last)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
        unit = " ms" if tick == ticks[-1] else ""
        anchor = "end" if unit else "middle"
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="{anchor}">{label}{unit}</text>')
    return "".join(parts) + "</g>"


def _span(span: Drawn, last: float) -> str:
    left, right = _x(span.start, last), _x(span.end, last)
    told = escape(f"{span.name}: {duration(span.end - span.start)} from {duration(span.start)}")
    return (
        f'<rect x="{left:.2f}" y="{ROW * span.row + (ROW - BAR) / 2:.0f}" width="{max(0.2, right - left):.2f}"'
        f' height="{BAR}" fill="{colour(span.kind)}"><title>{told}</title></rect>'
    )


def _legend(kinds: Sequence[str], shown: set[int], y: int) -> str:
    parts = ['<g class="axes">']
    x = float(LEFT)
    for kind in sorted(shown):
        parts.append(f'<rect x="{x:.0f}" y="{y - 10}" width="12" height="12" fill="{colour(kind)}"/>')
        parts.append(f'<text x="{x + 18:.0f}" y="{y}">{escape(kinds[kind])}</text>')
        x += 30 + 7 * len(kinds[kind])
    return "".join(parts) + "</g>"
