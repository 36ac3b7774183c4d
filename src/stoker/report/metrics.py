"""Sums and curves of `metrics.jsonl` and `evaluations.jsonl`, row by row, bounded for runs of any length."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stoker.report.curve import Curve, CurveBuilder
from stoker.report.rows import as_amount, as_float, as_int, as_text

StepPhase = Literal["data", "forward", "backward", "optimizer"]
STEP_PHASES: tuple[StepPhase, ...] = ("data", "forward", "backward", "optimizer")

_NO_METRIC = frozenset({"step", "epoch", "samples", "weight", "seconds", "time", "skipped", *STEP_PHASES})

StepRow = Mapping[str, object]


@dataclass(frozen=True)
class Metrics:
    """What `metrics.jsonl` says. Sums run over all rows, also over steps done twice after a resume.

    Attributes:
        rows: Rows read.
        last_step: Step of the last row; 0 without rows.
        epoch: Epoch of the last row that has one.
        samples: Samples worked through.
        seconds: Wall time of all steps.
        phases: Seconds by phase of a step; a phase that was never recorded is not in it.
        repeated: Rows that redid a step which an earlier row had already done.
        skipped: Steps skipped because fp16 overflowed.
        rates: Samples per second of each row that has both, in order.
        curves: Curve by name: `loss`, `lr`, `throughput` (samples/s), `grad_norm` and the task's metrics.
    """

    rows: int = 0
    last_step: int = 0
    epoch: float | None = None
    samples: float = 0.0
    seconds: float = 0.0
    phases: Mapping[StepPhase, float] = field(default_factory=dict[StepPhase, float])
    repeated: int = 0
    skipped: int = 0
    rates: array[float] = field(default_factory=lambda: array("d"))
    curves: Mapping[str, Curve] = field(default_factory=dict[str, Curve])


@dataclass(frozen=True)
class Evaluations:
    """What `evaluations.jsonl` says; `rows` and `seconds` count all evaluations, repeated ones too."""

    rows: int = 0
    seconds: float = 0.0
    curves: Mapping[str, Curve] = field(default_factory=dict[str, Curve])


def read_metrics(rows: Iterable[StepRow]) -> Metrics:
    """Sum and thin out the rows of `metrics.jsonl`, one at a time."""
    curves = _Curves()
    phases: dict[StepPhase, float] = {}
    rates: array[float] = array("d")
    epoch: float | None = None
    samples = seconds = 0.0
    skipped = 0
    for row in rows:
        curves.add_row(row)
        at_epoch = as_amount(row.get("epoch"))
        epoch = epoch if at_epoch is None else at_epoch
        skipped += row.get("skipped") is True
        done, took = as_amount(row.get("samples")), as_amount(row.get("seconds"))
        samples += done or 0.0
        seconds += took or 0.0
        if done is not None and took:
            rates.append(done / took)
            curves.add("throughput", done / took)
        for phase in STEP_PHASES:
            spent = as_amount(row.get(phase))
            if spent is not None:
                phases[phase] = phases.get(phase, 0.0) + spent
    return Metrics(
        rows=curves.rows,
        last_step=curves.step,
        epoch=epoch,
        samples=samples,
        seconds=seconds,
        phases=phases,
        repeated=curves.repeated,
        skipped=skipped,
        rates=rates,
        curves=curves.build(),
    )


def read_evaluations(rows: Iterable[StepRow]) -> Evaluations:
    """Sum and thin out the rows of `evaluations.jsonl`; of two at one step the later one counts."""
    curves = _Curves()
    seconds = 0.0
    for row in rows:
        curves.add_row(row)
        seconds += as_amount(row.get("seconds")) or 0.0
    return Evaluations(rows=curves.rows, seconds=seconds, curves=curves.build())


class _Curves:
    """The curves of one file. A step that goes back, after a resume, takes back what lay from there on."""

    def __init__(self) -> None:
        self.rows = self.step = self.repeated = 0
        self._furthest = -1
        self._builders: defaultdict[str, CurveBuilder] = defaultdict(CurveBuilder)

    def add_row(self, row: StepRow) -> None:
        """Go to the row's step, and add all its numbers that are metrics."""
        step = as_int(row.get("step"))
        step = self.step + 1 if step is None else step
        if self.rows and step <= self.step:
            for builder in self._builders.values():
                builder.rewind(step)
        self.rows += 1
        self.repeated += step <= self._furthest
        self.step, self._furthest = step, max(step, self._furthest)
        for name, value in row.items():
            if name not in _NO_METRIC:
                number = as_float(value)
                if number is not None:
                    self.add(name, number)

    def add(self, name: str, value: float) -> None:
        """Add a value at the row's step."""
        self._builders[name].add(self.step, value)

    def build(self) -> dict[str, Curve]:
        curves = {as_text(name): builder.build() for name, builder in self._builders.items()}
        return {name: curve for name, curve in curves.items() if curve.means}  # a resume may take back all
