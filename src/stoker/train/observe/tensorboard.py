"""TensorBoard event files."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoker.train.evaluate import EvaluationResult
from stoker.train.observe.base import Observer, StepRecord

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

SPACING = 1.0
"""Least seconds between two steps that are written: TensorBoard's writer costs more than a small step."""


class TensorBoardObserver(Observer):
    """Writes scalars: steps at most once a second, every evaluation. `metrics.jsonl` has every step."""

    def __init__(self, root: Path) -> None:
        self._folder = str(root / "tensorboard")
        self._next = 0.0
        self._writer: SummaryWriter | None = None

    def start(self, step: int, fraction: float) -> None:
        """Open a file; what an earlier one has after `step` is not shown any more."""
        del fraction
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(self._folder, purge_step=step + 1 if step else None)

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """Loss, rate and learning rate."""
        del fraction
        now = time.monotonic()
        if now < self._next or self._writer is None:
            return
        self._next = now + SPACING
        scalars = {
            "loss": record.loss,
            "lr": record.lr,
            "samples_per_second": record.samples / record.seconds,
        }
        for name, value in {**scalars, **record.extras}.items():
            self._writer.add_scalar(f"train/{name}", value, record.step)

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """Loss and metrics."""
        del epoch
        for name, value in {"loss": result.loss, **result.metrics}.items():
            assert self._writer is not None
            self._writer.add_scalar(f"eval/{name}", value, step)

    def flush(self) -> None:
        """Write what is gathered."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """End the writer's thread."""
        if self._writer is not None:
            self._writer.close()
