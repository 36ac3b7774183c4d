"""The thresholds of the verdicts, from one table."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files

IDLE_FOR = 900.0
"""Seconds for which a GPU whose memory is held must be idle."""
WAIT_OVER = 300.0
"""Seconds over which the waiting for data is averaged."""
SHM_FULL_RATIO = 0.9
"""Use of /dev/shm from which data workers are in danger: a batch of each must still fit."""


@dataclass(frozen=True)
class Limits:
    """From when on something is called wrong; units, reasons and sources stand in the table."""

    xid_window_seconds: float
    thermal_headroom_celsius: float
    power_cap_ratio: float
    idle_utilization_ratio: float
    idle_memory_ratio: float
    busy_utilization_ratio: float
    stalled_seconds: float
    stalled_steps: float
    data_wait_ratio: float
    disk_free_ratio: float


@cache
def limits() -> Limits:
    """The thresholds of the table."""
    text = files("stoker.monitor.judge").joinpath("limits.csv").read_text(encoding="utf-8")
    wanted = {field.name for field in fields(Limits)}
    rows = csv.DictReader(text.splitlines())
    return Limits(**{row["name"]: float(row["value"]) for row in rows if row["name"] in wanted and not row["model"]})
