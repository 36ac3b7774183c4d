"""metrics.jsonl, evaluations.jsonl and events.jsonl."""

from __future__ import annotations

import time
from pathlib import Path

from stoker.train.evaluate import EvaluationResult
from stoker.train.observe.base import Observer, StepRecord
from stoker.train.run_folder import JsonLines


class FileObserver(Observer):
    """Writes one JSON object per step, evaluation and event."""

    def __init__(self, root: Path) -> None:
        self._metrics = JsonLines(root / "metrics.jsonl")
        self._evaluations = JsonLines(root / "evaluations.jsonl")
        self._events = JsonLines(root / "events.jsonl")
        self._events.keep(lambda _: True)  # but not half a line, to which the next one would be glued

    def start(self, step: int, fraction: float) -> None:
        """Drop what a run that was cut short did after the checkpoint it continues from."""
        del fraction
        self._metrics.keep(lambda row: row["step"] <= step)
        self._evaluations.keep(lambda row: row["step"] <= step)

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """A row of metrics.jsonl."""
        del fraction
        self._metrics.append(record.row())

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """A row of evaluations.jsonl."""
        row = {"step": step, "epoch": epoch, "samples": result.samples, "loss": result.loss}
        self._evaluations.append(row | result.metrics | {"seconds": round(result.seconds, 6)})

    def on_event(self, event: str, step: int, **details: object) -> None:
        """A row of events.jsonl, at once."""
        self._events.append({"time": time.time(), "event": event, "step": step, **details})
        self._events.flush()

    def flush(self) -> None:
        """Write all rows."""
        self._metrics.flush()
        self._evaluations.flush()
        self._events.flush()

    def close(self) -> None:
        """Write all rows."""
        self.flush()
