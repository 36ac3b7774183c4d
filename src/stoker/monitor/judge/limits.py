"""The thresholds of the verdicts: those of the alert rules, so that a page and an alert never disagree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache

from stoker.monitor.rules.tables import Threshold, thresholds

IDLE_FOR = 900.0
"""Seconds for which a GPU whose memory is held must be idle, as in the alert GpuIdleWhileMemoryHeld."""
WAIT_OVER = 600.0
"""Seconds over which the waiting for data is averaged, as in the alert RunDataStarved."""
SHM_FULL_RATIO = 0.9
"""Use of /dev/shm from which data workers are in danger: a batch of each must still fit."""


@dataclass(frozen=True)
class Limits:
    """From when on something is called wrong; units, reasons and sources stand in the rules' table.

    Attributes:
        slowdown: Temperatures at which models slow down; the first row whose `model` matches counts.
    """

    xid_window_seconds: float
    thermal_headroom_celsius: float
    power_cap_ratio: float
    idle_utilization_ratio: float
    idle_memory_ratio: float
    busy_utilization_ratio: float
    stalled_seconds: float
    stalled_steps: float
    starting_seconds: float
    data_wait_ratio: float
    checkpoint_age_seconds: float
    disk_free_ratio: float
    slowdown: Sequence[Threshold]

    def slowdown_celsius(self, model: str) -> float | None:
        """The temperature at which a model slows down; None for a model that is not known."""
        return next((row.value for row in self.slowdown if re.fullmatch(row.model, model)), None)


@cache
def limits() -> Limits:
    """The thresholds of the table."""
    rows = thresholds()
    wanted = {field.name for field in fields(Limits)}
    plain = {row.name: row.value for row in rows if row.name in wanted and not row.model}
    return Limits(**plain, slowdown=[row for row in rows if row.name == "slowdown_celsius" and row.model])
