"""A Screen as rows for tables of a terminal of 80 columns. Pure functions: nothing here knows the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from stoker.monitor.history import thin
from stoker.monitor.view import Screen, Words
from stoker.monitor.view.screen import Badge, GpuView, Level, ProcessView, Reading, RunView
from stoker.report.figures import UNKNOWN

Order = Literal["gpu", "util", "memory", "temperature", "power"]
ORDERS: tuple[Order, ...] = ("gpu", "util", "memory", "temperature", "power")
"""What GPUs are sorted by, in the order in which a key goes through them."""

MARK: Mapping[Level, str] = {"": "", "good": "", "calm": "", "warn": "▲ ", "bad": "◆ "}
"""Colour is never the only sign."""

_BLOCKS = "▁▂▃▄▅▆▇█"
HOUR = 10
"""Characters of the last hour: six minutes each."""


class Cell(NamedTuple):
    """A text, and how it stands; the theme gives the colour."""

    text: str
    level: Level = ""


@dataclass(frozen=True)
class Column:
    """A column: its text's key and its width in characters; `right` for figures."""

    key: str
    width: int
    right: bool = False


GPU_COLUMNS = (
    Column("gpu", 3),
    Column("util", 7, right=True),
    Column("hour", HOUR),
    Column("memory", 8, right=True),
    Column("temperature", 7, right=True),
    Column("power", 7, right=True),
    Column("clock", 7, right=True),
    Column("run", 15),
)
RUN_COLUMNS = (
    Column("name", 14),
    Column("state", 9),
    Column("step", 13, right=True),
    Column("loss", 6, right=True),
    Column("rate", 9, right=True),
    Column("wait", 4, right=True),
    Column("since", 11, right=True),
)
PROCESS_COLUMNS = (
    Column("gpu", 3),
    Column("pid", 7, right=True),
    Column("user", 8),
    Column("process", 13),
    Column("memory", 10, right=True),
    Column("job", 11),
    Column("run", 14),
)
"""With a blank on each side of a cell, each of the three fills 80 columns."""

_BY: Mapping[Order, str] = {
    "util": "utilization_ratio",
    "memory": "memory_used_bytes",
    "temperature": "temperature_celsius",
    "power": "power_watts",
}


def sorted_gpus(gpus: Sequence[GpuView], order: Order) -> list[GpuView]:
    """GPUs by index, or the highest value first; an unknown value comes last."""
    if order == "gpu":
        return list(gpus)
    name = _BY[order]
    return sorted(gpus, key=lambda gpu: -_value(gpu, name))


def gpu_rows(screen: Screen, order: Order) -> list[list[Cell]]:
    """One row per GPU."""
    users = {gpu.uuid: run.name for run in screen.runs for gpu in run.gpus}
    return [_gpu_row(gpu, users.get(gpu.uuid, "")) for gpu in sorted_gpus(screen.gpus, order)]


def run_rows(screen: Screen) -> list[list[Cell]]:
    """One row per run."""
    return [_run_row(run) for run in screen.runs]


def process_rows(screen: Screen, order: Order) -> list[list[Cell]]:
    """One row per process, in the order of the GPUs."""
    place = {gpu.index: index for index, gpu in enumerate(sorted_gpus(screen.gpus, order))}
    return [_process_row(process) for process in sorted(screen.processes, key=lambda one: place[one.gpu])]


def finding_lines(screen: Screen, words: Words, most: int) -> list[Cell]:
    """A line per finding, `most` at most; one that says so where there is none."""
    lines = [_marked(finding.title, finding.level) for finding in screen.findings]
    lines += [Cell(sentence) for sentence in screen.unseen]
    if len(lines) > most:
        return [*lines[: most - 1], Cell(f"+ {len(lines) - most + 1}")]
    return lines or [Cell(words("page.nothing"), "good")]


def _gpu_row(gpu: GpuView, run: str) -> list[Cell]:
    reading = {one.name: one for one in gpu.main}
    wrong = [badge for badge in gpu.badges if badge.level in ("warn", "bad")]
    state = _badge(wrong[0]) if wrong else Cell(run) if run else _badge(gpu.badges[0]) if gpu.badges else Cell("")
    return [
        Cell(gpu.index),
        _value_cell(reading["utilization_ratio"]),
        Cell(_hour(reading["utilization_ratio"]), "calm"),
        _value_cell(reading["memory_used_bytes"]),
        _value_cell(reading["temperature_celsius"]),
        _value_cell(reading["power_watts"]),
        _marked(reading["sm_clock_hertz"].text.partition(" ")[0], reading["sm_clock_hertz"].level),
        state,
    ]


def _run_row(run: RunView) -> list[Cell]:
    reading = {one.name: one for one in run.readings}

    def cell(name: str) -> Cell:
        """Without a sign: the state has it."""
        return Cell(reading[name].text, reading[name].level) if name in reading else Cell(UNKNOWN)

    figures = (cell(name) for name in ("loss", "samples_per_second", "data_wait_ratio", "since_step_seconds"))
    return [Cell(run.name), _badge(run.badges[-1]), Cell(run.steps), *figures]


def _process_row(process: ProcessView) -> list[Cell]:
    parts = (process.gpu, process.pid, process.user, process.name, process.memory, process.place, process.run)
    return [Cell(part) for part in parts]


def _value_cell(reading: Reading) -> Cell:
    return _marked(reading.text, reading.level)


def _badge(badge: Badge) -> Cell:
    return _marked(badge.text, badge.level)


def _marked(text: str, level: Level) -> Cell:
    return Cell(MARK[level] + text, level)


def _hour(reading: Reading) -> str:
    if reading.trend is None:
        return ""
    low, span = reading.trend.low, reading.trend.high - reading.trend.low
    return "".join(_block((value - low) / span) for value in thin(reading.trend.values, HOUR))


def _block(share: float) -> str:
    """A bar of the lower eighths of a character; a blank for a gap."""
    return " " if math.isnan(share) else _BLOCKS[round(min(1.0, max(0.0, share)) * (len(_BLOCKS) - 1))]


def _value(gpu: GpuView, name: str) -> float:
    value = next((one.value for one in gpu.main if one.name == name), None)
    return -math.inf if value is None else value
