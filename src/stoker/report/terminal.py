"""A run's report, or the comparison of several, in a terminal: with or without colour, of any width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stoker.report.advice import time_sentence
from stoker.report.compare import Row, differing_settings, figure_rows, run_labels
from stoker.report.curve import Point, smooth
from stoker.report.figures import duration, percent
from stoker.report.headline import STATE_MEANING, tiles
from stoker.report.panels import SMOOTH_FROM
from stoker.report.plot import sparkline, text_plot
from stoker.report.predicted import Comparison, comparisons
from stoker.report.runfolder import Failure, RunRecord
from stoker.report.summary import PhaseTime, RunState, RunSummary, summarize

PLOT_HEIGHT = 8
PLOT_WIDTH = 76
BAR_WIDTH = 28
TIME_COLUMNS = 36
"""Width of the phase's name, share and time, with the space between them."""
SPARKLINE_WIDTH = 10
_STATE_STYLE: Mapping[RunState, str] = {
    "finished": "bold green",
    "stopped": "bold yellow",
    "failed": "bold red",
    "unfinished": "bold blue",
}
_ASCII = str.maketrans({"–": "-", "·": "-", "×": "x", "█": "#", "★": "*", "…": "~"})


def print_report(record: RunRecord, console: Console) -> None:
    """Print the summary of one run."""
    summary = summarize(record)
    parts: list[RenderableType] = [_head(summary), Text(), _tiles(summary)]
    if record.failure and summary.state == "failed":
        parts += [Text(), _failure(record.failure)]
    parts += _notes(summary.notices)
    parts += _plot(record, console)
    if summary.phases:
        parts += [Text(), Text("where the time went", style="bold"), _split(summary.phases, console.width)]
    parts += _predicted(comparisons(record))
    sentence = time_sentence(summary.phases, record.spec, record.environment)
    _show(Group(*parts, Text(), Text(sentence)), console)


def print_comparison(records: Sequence[RunRecord], console: Console) -> None:
    """Print several runs side by side, then the settings that differ; what is too wide comes in parts."""
    labels = run_labels(records)
    rows = figure_rows([summarize(record) for record in records])
    if _unicode(console):
        rows.append(Row("Loss over the steps", tuple(_loss_sparkline(record) for record in records)))
    parts = [*_tables("", rows, labels, console.width), Text("★ best of a row", style="dim"), Text()]
    differing = [Row(key, values) for key, values in differing_settings(records).items()]
    if differing:
        parts += _tables("settings that differ", differing, labels, console.width)
    else:
        parts.append(Text("The runs have the same settings."))
    _show(Group(*parts), console)


def _show(content: RenderableType, console: Console) -> None:
    """Print; where the output cannot carry Unicode, with the nearest plain signs."""
    with console.capture() as capture:
        console.print(content)
    text = "\n".join(line.rstrip() for line in capture.get().split("\n"))
    if not _unicode(console):
        text = text.translate(_ASCII).encode("ascii", "replace").decode("ascii")
    console.file.write(text)


def _unicode(console: Console) -> bool:
    return console.encoding.lower().replace("-", "").startswith("utf")


def _head(summary: RunSummary) -> Text:
    head = Text.assemble((summary.name, "bold"), "  ", (summary.state, _STATE_STYLE[summary.state]))
    what = " · ".join(filter(None, (summary.what, summary.devices, summary.precision)))
    if what:
        head.append(f"\n{what}")
    return head.append(f"\n{STATE_MEANING[summary.state]}", style="dim")


def _tiles(summary: RunSummary) -> Table:
    grid = Table.grid(padding=(0, 3))
    for tile in tiles(summary):
        grid.add_row(Text(tile.label), Text(tile.value, style="bold"), Text(tile.detail, style="dim"))
    return grid


def _failure(failure: Failure) -> RenderableType:
    place = [
        *([f"step {failure.step:,}"] if failure.step is not None else []),
        *([f"rank {failure.rank}"] if failure.rank is not None else []),
    ]
    title = " at ".join([failure.kind or "failure", *([", ".join(place)] if place else [])])
    parts: list[RenderableType] = [Text(title, style="bold red"), Text(failure.message)]
    for finding in failure.findings:
        parts.append(Text(finding.title, style="bold"))
        parts += [Padding(Text(line.text, style="dim"), (0, 0, 0, 2)) for line in finding.evidence]
        parts += [Text(f"{index}. {step}") for index, step in enumerate(finding.fix, start=1)]
    return Group(*parts)


def _notes(notices: Sequence[str]) -> list[RenderableType]:
    return [Text(), *(Text(f"note: {notice}", style="yellow") for notice in notices)] if notices else []


def _loss(record: RunRecord) -> tuple[str, Sequence[Point]]:
    """The loss of training, or of evaluations where there is no other."""
    for split, curves in (("training", record.metrics.curves), ("evaluation", record.evaluations.curves)):
        if "loss" in curves:
            means = curves["loss"].means
            return split, smooth(means) if len(means) >= SMOOTH_FROM else means
    return "", ()


def _plot(record: RunRecord, console: Console) -> list[RenderableType]:
    split, points = _loss(record)
    width = max(20, min(console.width, PLOT_WIDTH))
    lines = text_plot(points, width=width, height=PLOT_HEIGHT, unicode=_unicode(console))
    if not lines:
        return []
    title = Text(f"loss ({split})", style="bold")
    return [Text(), title, *(Text(line, no_wrap=True) for line in lines)]


def _loss_sparkline(record: RunRecord) -> str:
    return sparkline(_loss(record)[1], width=SPARKLINE_WIDTH)


def _predicted(rows: Sequence[Comparison]) -> list[RenderableType]:
    if not rows:
        return []
    grid = Table.grid(padding=(0, 3))
    for row in rows:
        predicted, measured = f"predicted {row.predicted_text}", f"measured {row.measured_text}"
        grid.add_row(Text(row.name), Text(predicted), Text(measured, style="bold"), Text(row.ratio_text, style="dim"))
    notes = [Text(row.note, style="dim") for row in rows if row.note]
    return [Text(), Text("predicted and measured", style="bold"), grid, *notes]


def _split(phases: Sequence[PhaseTime], width: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    for justify in ("left", "right", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    room = max(0, min(BAR_WIDTH, width - TIME_COLUMNS))
    for phase in phases:
        bar = Text("█" * round(phase.share * room), style="cyan")
        grid.add_row(phase.phase, percent(phase.share), duration(phase.seconds), bar)
    return grid


def _tables(title: str, rows: Sequence[Row], labels: Sequence[str], width: int) -> list[RenderableType]:
    """As many tables as it takes to fit the width, each followed by an empty line."""
    groups = _fitting(labels, rows, width)
    return [part for few in groups for part in (_table(title, rows, labels, few), Text())]


def _fitting(labels: Sequence[str], rows: Sequence[Row], width: int) -> list[range]:
    """Groups of runs whose columns fit the width side by side; at least one run each."""
    names = max(len(row.label) for row in rows)
    cells = max(max(map(len, labels)), *(len(cell) + 2 for row in rows for cell in row.cells)) + 2
    each = max(1, (width - names) // cells)
    return [range(start, min(start + each, len(labels))) for start in range(0, len(labels), each)]


def _table(title: str, rows: Sequence[Row], labels: Sequence[str], few: range) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(title, overflow="fold")
    for index in few:
        table.add_column(Text(labels[index]), justify="right", overflow="fold")
    for row in rows:
        table.add_row(Text(row.label), *(_cell(row, index) for index in few))
    return table


def _cell(row: Row, index: int) -> Text:
    if index in row.best:
        return Text(f"★ {row.cells[index]}", style="bold green")
    return Text(row.cells[index])
