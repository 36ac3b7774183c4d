"""A Screen as rows for tables of a terminal of 80 columns. Pure functions: nothing here knows the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.text import Text

from stoker.monitor.history import thin
from stoker.monitor.view import Screen, Words
from stoker.monitor.view.screen import Badge, GpuView, Level, ProcessView, Reading, RunView
from stoker.report.figures import UNKNOWN

Order = Literal["gpu", "util", "memory", "temperature", "power"]
ORDERS: tuple[Order, ...] = ("gpu", "util", "memory", "temperature", "power")
"""What GPUs are sorted by, in the order in which a key goes through them."""

STYLE: Mapping[Level, str] = {"": "", "good": "green", "calm": "cyan", "warn": "bold yellow", "bad": "bold red"}
MARK: Mapping[Level, str] = {"": "", "good": "", "calm": "", "warn": "▲ ", "bad": "◆ "}
"""Colour is never the only sign."""

_BLOCKS = "▁▂▃▄▅▆▇█"
HOUR = 10
"""Characters of the last hour: six minutes each."""


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


def gpu_rows(screen: Screen, order: Order) -> list[list[Text]]:
    """One row per GPU."""
    users = {gpu.uuid: run.name for run in screen.runs for gpu in run.gpus}
    return [_gpu_row(gpu, users.get(gpu.uuid, "")) for gpu in sorted_gpus(screen.gpus, order)]


def run_rows(screen: Screen) -> list[list[Text]]:
    """One row per run."""
    return [_run_row(run) for run in screen.runs]


def process_rows(screen: Screen, order: Order) -> list[list[Text]]:
    """One row per process, in the order of the GPUs."""
    place = {gpu.index: index for index, gpu in enumerate(sorted_gpus(screen.gpus, order))}
    return [_process_row(process) for process in sorted(screen.processes, key=lambda one: place[one.gpu])]


def head_line(screen: Screen, words: Words) -> Text:
    """Machine, verdict, whether it is simulated, and when."""
    line = Text(no_wrap=True, overflow="ellipsis")
    if screen.simulated:
        line.append(f" {words('page.simulated').upper()} ", "bold reverse yellow").append(" ")
    line.append(screen.host, "bold").append("  ").append(_badge(screen.verdict))
    return line.append(f"  {screen.taken}  {screen.what}", "dim")


def finding_lines(screen: Screen, words: Words) -> list[Text]:
    """A line per finding; one that says so where there is none."""
    lines = [
        Text(f"{MARK[finding.level]}{finding.title}", STYLE[finding.level], no_wrap=True, overflow="ellipsis")
        for finding in screen.findings
    ]
    lines += [Text(sentence, "dim", no_wrap=True, overflow="ellipsis") for sentence in screen.unseen]
    return lines or [Text(words("page.nothing"), STYLE["good"])]


def _gpu_row(gpu: GpuView, run: str) -> list[Text]:
    reading = {one.name: one for one in gpu.main}
    wrong = [badge for badge in gpu.badges if badge.level in ("warn", "bad")]
    state = _badge(wrong[0]) if wrong else Text(run) if run else Text(" ").join(map(_badge, gpu.badges))
    return [
        Text(gpu.index),
        _cell(reading["utilization_ratio"]),
        _hour(reading["utilization_ratio"]),
        _cell(reading["memory_used_bytes"]),
        _cell(reading["temperature_celsius"]),
        _cell(reading["power_watts"]),
        _cell(reading["sm_clock_hertz"], _without_unit),
        state,
    ]


def _run_row(run: RunView) -> list[Text]:
    reading = {one.name: one for one in run.readings}

    def cell(name: str) -> Text:
        """Coloured, but without a sign: the state has it."""
        if name not in reading:
            return Text(UNKNOWN)
        return Text(reading[name].text, STYLE[reading[name].level])

    return [
        Text(run.name),
        _badge(run.badges[-1]),
        Text(run.steps),
        cell("loss"),
        cell("samples_per_second"),
        cell("data_wait_ratio"),
        cell("since_step_seconds"),
    ]


def _process_row(process: ProcessView) -> list[Text]:
    parts = (process.gpu, process.pid, process.user, process.name, process.memory, process.place, process.run)
    return [Text(part) for part in parts]


def _cell(reading: Reading, written: Callable[[str], str] = str) -> Text:
    return Text(MARK[reading.level] + written(reading.text), STYLE[reading.level])


def _without_unit(text: str) -> str:
    return text.partition(" ")[0]


def _badge(badge: Badge) -> Text:
    return Text(MARK[badge.level] + badge.text, STYLE[badge.level])


def _hour(reading: Reading) -> Text:
    if reading.trend is None:
        return Text("")
    low, span = reading.trend.low, reading.trend.high - reading.trend.low
    return Text("".join(_block((value - low) / span) for value in thin(reading.trend.values, HOUR)), "blue")


def _block(share: float) -> str:
    """A bar of the lower eighths of a character; a blank for a gap."""
    return " " if math.isnan(share) else _BLOCKS[round(min(1.0, max(0.0, share)) * (len(_BLOCKS) - 1))]


def _value(gpu: GpuView, name: str) -> float:
    value = next((one.value for one in gpu.main if one.name == name), None)
    return float("-inf") if value is None else value
