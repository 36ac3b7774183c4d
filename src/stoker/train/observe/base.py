"""What observers are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.train.evaluate import EvaluationResult


@dataclass(frozen=True)
class StepRecord:
    """One step, settled.

    Attributes:
        step: From 1.
        epoch: From 0; the epoch of the step's samples.
        loss: Mean over the step's weight.
        samples: Over all ranks.
        weight: Items over all ranks.
        lr: Learning rate.
        seconds: Wall time on rank 0.
        phases: Seconds by phase on rank 0: data, forward, backward, optimizer.
        extras: Task metrics, gradient norm, loss scale.
        skipped: The step was not applied because fp16 gradients overflowed.
    """

    step: int
    epoch: int
    loss: float
    samples: int
    weight: float
    lr: float
    seconds: float
    phases: Mapping[str, float]
    extras: Mapping[str, float]
    skipped: bool = False

    def row(self) -> dict[str, object]:
        """As it stands in `metrics.jsonl`."""
        row: dict[str, object] = {
            "step": self.step, "epoch": self.epoch, "loss": self.loss, "samples": self.samples,
            "weight": self.weight, "lr": self.lr, "seconds": round(self.seconds, 6),
        }  # fmt: skip
        row |= {name: round(seconds, 6) for name, seconds in self.phases.items()}
        row |= self.extras
        return row | {"skipped": True} if self.skipped else row


class Observer:
    """Is told what happens; does nothing with it unless overridden."""

    def say(self, text: str) -> None:
        """A sentence for the person."""

    def start(self, step: int, fraction: float) -> None:
        """The loop begins after `step` steps."""

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """A step is done; `fraction` of the run is behind."""

    def on_activity(self, activity: str) -> None:
        """Something begins that may take longer than a step: `evaluate` or `checkpoint`."""

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """An evaluation is done."""

    def on_event(self, event: str, step: int, **details: object) -> None:
        """Something else happened: resume, checkpoint, stop, end, ..."""

    def flush(self) -> None:
        """Bring to disk what was gathered: a checkpoint is about to be written."""

    def close(self) -> None:
        """The run is over."""


class Observers(Observer):
    """Tells several observers. Other ranks than 0 have none."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = observers

    def say(self, text: str) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.say(text)

    def start(self, step: int, fraction: float) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.start(step, fraction)

    def on_step(self, record: StepRecord, fraction: float) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.on_step(record, fraction)

    def on_activity(self, activity: str) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.on_activity(activity)

    def on_evaluation(self, step: int, epoch: int, result: EvaluationResult) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.on_evaluation(step, epoch, result)

    def on_event(self, event: str, step: int, **details: object) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.on_event(event, step, **details)

    def flush(self) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.flush()

    def close(self) -> None:
        """Pass on."""
        for observer in self._observers:
            observer.close()
