"""What the planner predicted of a run beside what was measured. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from stoker.report.figures import UNKNOWN, data_size, duration, percent
from stoker.report.rows import as_amount, as_int, as_mapping
from stoker.report.runfolder import RunRecord
from stoker.report.summary import steady_rate

Unit = Literal["seconds", "bytes"]


@dataclass(frozen=True)
class Comparison:
    """One figure, predicted and measured; None where a side is unknown.

    Attributes:
        name: What it is.
        unit: Of all values.
        expected: What was predicted.
        low: The low end of the prediction; None where it has no range.
        high: The high end.
        measured: What came out.
        note: What the two sides do not have in common.
    """

    name: str
    unit: Unit
    expected: float | None
    low: float | None
    high: float | None
    measured: float | None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Measured over expected."""
        return self.measured / self.expected if self.measured is not None and self.expected else None

    @property
    def predicted_text(self) -> str:
        """The prediction with its range."""
        if self.expected is None:
            return UNKNOWN
        ends = ""
        if self.low is not None and self.high is not None:
            ends = f" ({self._text(self.low)} to {self._text(self.high)})"
        return self._text(self.expected) + ends

    @property
    def measured_text(self) -> str:
        """The measurement."""
        return UNKNOWN if self.measured is None else self._text(self.measured)

    @property
    def ratio_text(self) -> str:
        """How the two compare.

        >>> Comparison("Step time", "seconds", 0.1, 0.09, 0.12, 0.11).ratio_text
        '1.10 times, within the range'
        """
        if self.ratio is None or self.measured is None:
            return UNKNOWN
        inside = self.low is not None and self.high is not None and self.low <= self.measured <= self.high
        return f"{self.ratio:.2f} times" + (", within the range" if inside else "")

    def _text(self, value: float) -> str:
        return duration(value) if self.unit == "seconds" else data_size(value)


def comparisons(record: RunRecord) -> tuple[Comparison, ...]:
    """Step time and peak memory, predicted and measured; none for a run that was not planned as it was run."""
    if not record.plan or as_int(record.plan.get("processes")) != as_int(record.environment.get("world_size")):
        return ()
    return _step_time(record), _peak_memory(record)


def _step_time(record: RunRecord) -> Comparison:
    planned = as_mapping(as_mapping(record.plan.get("speed")).get("step_seconds"))
    expected, low, high = (as_amount(planned.get(key)) for key in ("expected", "low", "high"))
    size = as_int(as_mapping(record.spec.get("batch")).get("global_size"))
    rate = steady_rate(record.metrics.rates)
    measured = size / rate if size and rate else None
    return Comparison("Step time", "seconds", expected, low, high, measured, _data_note(record))


def _data_note(record: RunRecord) -> str:
    waited, seconds = record.metrics.phases.get("data"), record.metrics.seconds
    if not waited or not seconds:
        return ""
    return f"{percent(waited / seconds)} of the measured time is waiting for data, which is not predicted"


def _peak_memory(record: RunRecord) -> Comparison:
    """Of one process: what its GPU's allocator reserved, or what the process held of the host's memory."""
    event = next((event for event in reversed(record.events) if event.event == "memory"), None)
    on_cpu = record.plan.get("kind") == "cpu"
    expected = as_amount(as_mapping(record.plan.get("memory")).get("device_bytes" if on_cpu else "reserved"))
    wanted = "resident" if on_cpu else "reserved"
    measured = event.peak_bytes if event is not None and event.kind == wanted else None
    return Comparison(f"Peak memory ({wanted})", "bytes", expected, None, None, measured)


def as_json(comparison: Comparison) -> Mapping[str, object]:
    """For programs."""
    return {
        "name": comparison.name,
        "unit": comparison.unit,
        "expected": comparison.expected,
        "low": comparison.low,
        "high": comparison.high,
        "measured": comparison.measured,
    }
