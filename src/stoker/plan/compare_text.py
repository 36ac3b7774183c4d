"""A comparison of cards for people: a table with bars in the terminal, or a page that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stoker.plan.compare import Compared
from stoker.plan.hardware import GIB
from stoker.plan.speed import Range
from stoker.report.bars import Bar, bar_chart, rough, text_bars
from stoker.report.figures import UNKNOWN
from stoker.report.html import render_page
from stoker.report.sections import Section, Table

HEADS = ("card", "fits", "GiB of GiB", "samples/s", "range", "ms per step", "per 1000 W", "per 1000 spent", "bound by")
BAR_WIDTH = 40
_PRICE = HEADS.index("per 1000 spent")

_MEASURES: tuple[tuple[str, Callable[[Compared], Range | None]], ...] = (
    ("Samples/s", lambda one: one.samples_per_second),
    ("Samples/s per 1000 W of the boards", lambda one: one.per_kilowatt),
    ("Samples/s per 1000 spent on the cards", lambda one: one.per_thousand),
)


def to_text(compared: Sequence[Compared], what: str, *, unicode: bool = True) -> str:
    """The table, then bars of the rate: solid to its low end, shaded to the expected value, faint to its high end."""
    cells = [_cells(one) for one in compared]
    shown = [index for index in range(len(HEADS)) if index != _PRICE or any(one.price for one in compared)]
    widths = [max(len(HEADS[index]), *(len(row[index]) for row in cells)) for index in shown]
    table = [HEADS, *cells]
    lines = [what, ""]
    lines += [
        "  ".join(_padded(row[index], width, index) for index, width in zip(shown, widths, strict=True))
        for row in table
    ]
    lines += ["", "samples/s: low to expected to high"]
    lines += text_bars(_bars(compared, _MEASURES[0][1]), width=BAR_WIDTH, unicode=unicode)
    lines += ["", *(f"note: {note}" for note in notes(compared))]
    text = "\n".join(line.rstrip() for line in lines) + "\n"
    return text if unicode else text.replace(UNKNOWN, "-")


def to_html(compared: Sequence[Compared], title: str, what: str) -> str:
    """One page with the table, a bar chart for each measure that is known, and what was assumed."""
    charts = [
        Section(heading, picture=bar_chart(heading, _bars(compared, measure), key=f"chart{index}"))
        for index, (heading, measure) in enumerate(_MEASURES)
        if any(measure(one) for one in compared)
    ]
    return render_page(
        "plan.html.j2",
        title=title,
        what=what,
        sections=[Section("Side by side", table=Table(HEADS, [_cells(one) for one in compared])), *charts],
        notes=notes(compared),
        assumptions=[f"{one.label}: {line}" for one in compared for line in one.assumptions],
    )


def notes(compared: Sequence[Compared]) -> list[str]:
    """What a reader has to know of the figures."""
    found = [
        "rates are ranges that follow from the efficiencies assumed for each card; `stoker plan speed` names them",
        "watts are those of the boards alone; `stoker plan power` has the server",
    ]
    if any(one.price is not None for one in compared):
        found.append("prices are of the cards alone, as given")
    return [*found, *(f"{one.label}: {one.trouble}" for one in compared if one.trouble)]


def _cells(one: Compared) -> tuple[str, ...]:
    rate, step = one.samples_per_second, one.step_seconds
    held = UNKNOWN if one.memory_bytes is None else f"{one.memory_bytes / GIB:.1f}"
    return (
        one.label,
        one.verdict or "no trace",
        f"{held} of {one.usable_bytes / GIB:.1f}",
        rough(rate.expected if rate else None),
        f"{rough(rate.low)} to {rough(rate.high)}" if rate else UNKNOWN,
        rough(step.expected * 1e3 if step else None),
        rough(one.per_kilowatt.expected if one.per_kilowatt else None),
        rough(one.per_thousand.expected if one.per_thousand else None),
        one.bound or UNKNOWN,
    )


def _padded(cell: str, width: int, column: int) -> str:
    return f"{cell:<{width}}" if column in (0, 1, len(HEADS) - 1) else f"{cell:>{width}}"


def _bars(compared: Sequence[Compared], measure: Callable[[Compared], Range | None]) -> list[Bar]:
    bars: list[Bar] = []
    for index, one in enumerate(compared):
        rate = measure(one)
        if rate is None:
            bars.append(Bar(one.label, None, note=_why_none(one)))
        else:
            bars.append(Bar(one.label, rate.expected, rate.low, rate.high, colour=index))
    return bars


def _why_none(one: Compared) -> str:
    if one.trouble:
        return "could not be traced"
    return "does not fit" if one.verdict == "does not fit" else "not known"
