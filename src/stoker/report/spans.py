"""Spans of time on rows, as SVG: what was busy when. Pure functions: values in, text out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from stoker.report.charts import colour
from stoker.report.figures import duration, percent
from stoker.report.panels import LegendEntry
from stoker.report.scale import nice_ticks, tick_labels

WIDTH, RIGHT = 560, 8
BAR, GAP, NAME, AXIS = 20, 8, 22, 26
"""Heights in user units: of the spans in a row, between rows, of a name above a row, of the axis below."""
SOLID, PALEST = 0.98, 0.25
"""Busy share from which a span is drawn as solid, and opacity of one that is hardly busy."""
BESIDE = 86
"""Width of names beside their rows."""


@dataclass(frozen=True)
class Drawn:
    """A span.

    Attributes:
        row: Index of its row.
        start: Seconds; so are `end` and `busy`.
        name: What is shown of it when it is pointed at.
        kind: Index into the names of the legend, and into the palette.
        busy: How much of it is busy, where it has gaps too small to draw: it is paler then. None for all.
    """

    row: int
    start: float
    end: float
    name: str
    kind: int
    busy: float | None = None

    @property
    def occupied(self) -> float:
        """Seconds in which it is busy."""
        return self.end - self.start if self.busy is None else self.busy

    @property
    def share(self) -> float:
        """The same as a share of its length."""
        return self.occupied / (self.end - self.start) if self.end > self.start else 1.0


def span_chart(title: str, rows: Sequence[str], spans: Sequence[Drawn], *, key: str, beside: bool = False) -> str:
    """Rows of spans over time, each row with the share of the time in which it is busy.

    Args:
        title: For people who do not see the chart, together with a description in words.
        rows: Names of the rows, from above.
        spans: In any order; those of a row do not overlap.
        key: Makes the identifiers unique in the page.
        beside: Whether names are so short that they stand beside their rows instead of above them.
    """
    end = max((span.end for span in spans), default=0.0) or 1.0
    plot = _Plot(len(rows), end, beside)
    shares = [percent(sum(span.occupied for span in spans if span.row == row) / end) for row in range(len(rows))]
    words = ", ".join(f"{name} busy {share}" for name, share in zip(rows, shares, strict=True))
    parts = [_axis(plot)]
    for row, (name, share) in enumerate(zip(rows, shares, strict=True)):
        y = plot.y(row)
        place = f'x="{BESIDE - 8}" y="{y + BAR / 2}" dy="0.33em" text-anchor="end"' if beside else f'x="0" y="{y - 6}"'
        label = escape(name if beside else f"{name}, busy {share}")
        parts.append(f'<g class="axes"><text {place}>{label}</text></g>')
    parts += [_span(span, plot) for span in spans]
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {plot.bottom + AXIS}" role="img" aria-labelledby="{key}-t {key}-d">'
        f'<title id="{key}-t">{escape(title)}</title><desc id="{key}-d">{escape(words)}</desc>{"".join(parts)}</svg>'
    )


def span_legend(kinds: Sequence[str], spans: Sequence[Drawn]) -> tuple[LegendEntry, ...]:
    """What the colours of those kinds mean that occur, in the order of the kinds."""
    shown = sorted({span.kind for span in spans})
    return tuple(LegendEntry(kinds[kind], "", colour(kind), dots=True) for kind in shown)


@dataclass(frozen=True)
class _Plot:
    rows: int
    end: float
    beside: bool

    @property
    def ticks(self) -> list[float]:
        """In the unit of the axis; the last may lie beyond what is drawn."""
        return nice_ticks(0.0, self.end * self.scale, 5)

    @property
    def scale(self) -> float:
        """Units of the axis in a second."""
        return 1.0 if self.end >= 1 else 1e3

    @property
    def bottom(self) -> int:
        return self.rows * (BAR + GAP + (0 if self.beside else NAME))

    def x(self, seconds: float) -> float:
        left = BESIDE if self.beside else 0
        return left + seconds * self.scale / self.ticks[-1] * (WIDTH - left - RIGHT)

    def y(self, row: int) -> float:
        pitch = BAR + GAP + (0 if self.beside else NAME)
        return row * pitch + (GAP / 2 if self.beside else NAME)


def _axis(plot: _Plot) -> str:
    parts = ['<g class="axes">']
    ticks = plot.ticks
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        x = plot.x(tick / plot.scale)
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{plot.bottom}"/>')
        unit = (" s" if plot.scale == 1 else " ms") if tick == ticks[-1] else ""
        anchor = "end" if unit else "start" if tick == 0 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{plot.bottom + 19}" text-anchor="{anchor}">{label}{unit}</text>')
    return "".join(parts) + "</g>"


def _span(span: Drawn, plot: _Plot) -> str:
    left, right = plot.x(span.start), plot.x(span.end)
    told = f"{span.name}: {duration(span.end - span.start)} from {duration(span.start)}"
    pale = ""
    if span.share < SOLID:
        told += f", busy {percent(span.share)}"
        pale = f' fill-opacity="{max(PALEST, span.share):.2f}"'
    return (
        f'<rect x="{left:.2f}" y="{plot.y(span.row):.0f}" width="{max(0.2, right - left):.2f}"'
        f' height="{BAR}" fill="{colour(span.kind)}"{pale}><title>{escape(told)}</title></rect>'
    )
