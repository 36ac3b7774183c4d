"""Which charts a page shows, and what is in them: from records to panels. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.report.charts import Line, Part, colour, line_chart, stacked_bar
from stoker.report.curve import Curve, smooth
from stoker.report.figures import duration, number, percent
from stoker.report.runfolder import RunRecord
from stoker.report.summary import Phase, PhaseTime

SMOOTH_FROM = 30
"""Points from which a training curve gets a trend; fewer are easier to read as they are."""
RAW_RUNS = 3
"""Up to so many runs a comparison draws the raw values behind the trends; more would hide them."""

_TITLES = {
    "lr": "Learning rate",
    "throughput": "Throughput (samples/s)",
    "grad_norm": "Gradient norm",
    "loss_scale": "Loss scale (fp16)",
}
_FROM_ZERO = frozenset({"lr", "throughput"})
_LAST = ("lr", "grad_norm", "loss_scale", "throughput")
_PHASE_COLOUR: Mapping[Phase, int] = {
    "data": 1,
    "forward": 0,
    "backward": 5,
    "optimizer": 2,
    "evaluation": 3,
    "checkpoint": 4,
    "other": 7,
}


@dataclass(frozen=True)
class LegendEntry:
    """A name in its colour, with the last value, which the page's script replaces while it is pointed at."""

    name: str
    value: str
    colour: str
    dots: bool
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """A chart with its heading and legend."""

    title: str
    svg: str
    legend: tuple[LegendEntry, ...]
    note: str = ""


@dataclass(frozen=True)
class SplitRow:
    """A part in the legend of a bar: its share of the whole, and its amount in words."""

    name: str
    colour: str
    share: str
    amount: str


@dataclass(frozen=True)
class TimeSplit:
    """A bar divided into parts, such as the time of a run, with its legend."""

    svg: str
    rows: tuple[SplitRow, ...]


def run_panels(record: RunRecord) -> list[Panel]:
    """The charts of one run, training and evaluation of a metric in one chart."""
    training, evaluation = record.metrics.curves, record.evaluations.curves
    panels: list[Panel] = []
    for name in curve_names([record]):
        lines: list[Line] = []
        if name in training:
            lines.append(training_line("training", training[name], colour_index=0, noisy=name != "lr"))
        if name in evaluation:
            lines.append(evaluation_line("evaluation", evaluation[name], colour_index=1))
        panels.append(_panel(name, _title(name), lines, key=f"c{len(panels)}"))
    return panels


def comparison_panels(records: Sequence[RunRecord], labels: Sequence[str]) -> list[Panel]:
    """The charts of several runs: one colour per run, training and evaluation in charts of their own."""
    raw = len(records) <= RAW_RUNS
    panels: list[Panel] = []
    for name in curve_names(records):
        evaluated: list[Line] = []
        trained: list[Line] = []
        for index, (record, label) in enumerate(zip(records, labels, strict=True)):
            curve = record.evaluations.curves.get(name)
            if curve:
                evaluated.append(evaluation_line(label, curve, colour_index=index))
            curve = record.metrics.curves.get(name)
            if curve:
                trained.append(training_line(label, curve, colour_index=index, raw=raw, noisy=name != "lr"))
        for lines, split in ((evaluated, "evaluation"), (trained, "training")):
            if lines:
                title = _title(name) if name in _TITLES else f"{_title(name)} ({split})"
                panels.append(_panel(name, title, lines, key=f"c{len(panels)}"))
    return panels


def curve_names(records: Sequence[RunRecord]) -> list[str]:
    """Names of all curves: loss, the metrics, then learning rate, gradient norm and throughput."""
    names: dict[str, None] = {}
    for record in records:
        names.update(dict.fromkeys((*record.evaluations.curves, *record.metrics.curves)))

    def rank(name: str) -> tuple[bool, int]:
        return name != "loss", _LAST.index(name) + 1 if name in _LAST else 0

    return sorted(names, key=rank)


def training_line(name: str, curve: Curve, *, colour_index: int, raw: bool = True, noisy: bool = True) -> Line:
    """A training curve: raw values faintly behind their trend, if they are noisy."""
    trend = smooth(curve.means) if noisy and len(curve.means) >= SMOOTH_FROM else ()
    points, trend = (curve.extremes, trend) if raw or not trend else (trend, ())
    return Line(name, points, trend, read=curve.means, width=curve.width, colour=colour_index)


def evaluation_line(name: str, curve: Curve, *, colour_index: int) -> Line:
    """An evaluation curve: each value is a dot."""
    return Line(name, curve.extremes, dots=True, colour=colour_index)


def time_split(phases: Sequence[PhaseTime], *, key: str) -> TimeSplit:
    """The bar and its legend; phases that took no time are in the legend only."""
    parts = [
        (Part(phase.phase, phase.seconds, _PHASE_COLOUR[phase.phase]), duration(phase.seconds)) for phase in phases
    ]
    return split_of("Time by phase", parts, key=key)


def split_of(title: str, parts: Sequence[tuple[Part, str]], *, key: str, whole: float | None = None) -> TimeSplit:
    """A bar divided in proportion to its parts, each with its amount in words.

    Args:
        title: For people who do not see the bar.
        parts: Each with its amount.
        key: Makes the identifiers unique in the page.
        whole: What the full length stands for, where the parts leave some of it over; by default their sum.
    """
    total = max(whole or 0.0, sum(part.value for part, _ in parts)) or 1.0
    rows = [SplitRow(part.name, colour(part.colour), percent(part.value / total), amount) for part, amount in parts]
    return TimeSplit(stacked_bar(title, [part for part, _ in parts], key=key, whole=total), tuple(rows))


def _title(name: str) -> str:
    return _TITLES.get(name) or name[:1].upper() + name[1:].replace("_", " ")


def panel_of(title: str, lines: Sequence[Line], svg: str) -> Panel:
    """A line chart with the legend of its lines."""
    legend = tuple(
        LegendEntry(line.name, number(line.shown[-1].value), colour(line.colour), line.dots, line.dashed)
        for line in lines
    )
    widths = sorted({line.width for line in lines if line.width > 1})
    note = f"mean of {' or '.join(map(str, widths))} steps" if widths else ""
    return Panel(title, svg, legend, note)


def _panel(name: str, title: str, lines: Sequence[Line], *, key: str) -> Panel:
    from_zero = name in _FROM_ZERO
    svg = line_chart(title, lines, key=key, from_zero=from_zero, log=False if from_zero else None)
    return panel_of(title, lines, svg)
