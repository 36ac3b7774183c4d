"""What a search found, as people read it in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from stoker.plan.hardware import GIB
from stoker.plan.search.outcome import Found, Goal, Option, best, unbeaten
from stoker.report.figures import duration, number

_LONG = 48
"""Hours from which days are easier to read."""


def table_of(found: Found, goal: Goal) -> Table:
    """Every option that was traced in full, the best first; `*` marks those that no other beats."""
    winner = best(found.options, goal)
    stars = unbeaten(found.options)
    priced = any(option.cost is not None for option in found.options)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    names = (
        "",
        "GPUs",
        "layout",
        "checkpointing",
        "micro x acc.",
        "memory GiB",
        "step",
        "time",
        "GPU h",
        "kWh",
        "cost",
    )
    for name in names if priced else names[:-1]:
        table.add_column(
            name, no_wrap=True, justify="left" if name in ("", "GPUs", "layout", "checkpointing") else "right"
        )
    for option in _ordered(found.options, winner):
        mark = ">" if option is winner else "*" if option in stars else ""
        style = "dim" if not option.fits else "bold" if option is winner else ""
        table.add_row(*(Text(cell, style=style) for cell in (mark, *_cells(option, priced=priced))))
    return table


def _ordered(options: Sequence[Option], winner: Option | None) -> list[Option]:
    return sorted(options, key=lambda one: (one is not winner, not one.fits, one.hours))


def _cells(option: Option, *, priced: bool) -> list[str]:
    servers, shape, usable = option.servers, option.shape, option.servers.gpu.memory_gib
    energy, cost = option.energy_kwh, option.cost
    memory = f"{option.device_bytes / GIB:.1f}/{usable:.0f}"
    if option.verdict != "fits":
        memory += f" {option.verdict}"
    cells = [
        f"{servers.gpus} x {servers.gpu.name}",
        str(option.layout),
        shape.checkpointing,
        f"{shape.micro_batch} x {shape.accumulation}",
        memory,
        duration(option.step_seconds.expected),
        hours_text(option.hours),
        number(option.gpu_hours),
        "-" if energy is None else number(energy),
    ]
    return [*cells, "-" if cost is None else number(cost)] if priced else cells


def hours_text(hours: float) -> str:
    """A long time.

    >>> hours_text(0.01), hours_text(5), hours_text(100)
    ('36 s', '5 h', '4.17 d')
    """
    if hours >= _LONG:
        return f"{hours / 24:.3g} d"
    return f"{hours:.3g} h" if hours >= 1 else f"{hours * 60:.3g} min" if hours * 60 >= 1 else f"{hours * 3600:.3g} s"


def sentences(found: Found, goal: Goal) -> list[str]:
    """What to take, whether the deadline is met, and what training can run today."""
    winner = best(found.options, goal)
    if winner is None:
        return ["nothing fits: take more servers, larger GPUs, or a smaller batch", *_notes(found)]
    said = [f"take {winner.servers}: {winner.layout}, {_shape_text(winner)}"]
    if goal.deadline_hours is not None:
        said.append(_deadline(winner, goal.deadline_hours))
        if any(option.cost is None for option in found.options if option.fits):
            said.append("cheapest means fewest GPU hours: GPUs of different kinds compare by --price only")
    if not winner.plain:
        said.append(_for_training(found, goal))
    said.append(f"energy is that of the GPUs at board power; {found.tried:,} combinations were estimated")
    return [*said, *_notes(found)]


def _shape_text(option: Option) -> str:
    shape = option.shape
    parts = shape.accumulation
    micro = f"micro-batch {shape.micro_batch}" + (f" x {parts} accumulated" if parts > 1 else "")
    return f"checkpointing {shape.checkpointing}, {micro}, {shape.precision}"


def _deadline(winner: Option, deadline: float) -> str:
    if winner.hours > deadline:
        return f"nothing meets the deadline of {hours_text(deadline)}: the fastest takes {hours_text(winner.hours)}"
    worst = "also" if winner.worst_hours <= deadline else "not"
    return (
        f"it meets the deadline of {hours_text(deadline)} with {hours_text(winner.hours)},"
        f" {worst} at the slow end of the range, {hours_text(winner.worst_hours)}"
    )


def _for_training(found: Found, goal: Goal) -> str:
    """`stoker train` spreads a model by DDP only."""
    plain = best([option for option in found.options if option.plain], goal)
    if plain is None:
        return "stoker train runs single GPUs and DDP so far, and neither fits here"
    return (
        f"stoker train runs single GPUs and DDP so far: the best of those is {plain.layout} on {plain.servers},"
        f" {_shape_text(plain)}, {hours_text(plain.hours)}"
    )


def _notes(found: Found) -> list[str]:
    return [f"note: {note}" for note in found.notes]
