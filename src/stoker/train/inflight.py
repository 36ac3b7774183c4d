"""Steps whose results are still on their way from the device."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from stoker.data.batches import GlobalBatch
from stoker.train.observe.base import StepRecord
from stoker.train.totals import LAG, Agreed, PendingStep


@dataclass(frozen=True)
class SettledStep:
    """A step whose results are known: what all agreed on, and the record for observers."""

    batch: GlobalBatch
    agreed: Agreed
    record: StepRecord
    pending: PendingStep


class InFlight:
    """A queue of steps, read a fixed number of steps late on a device and at once on the CPU.

    The distance is fixed so that every rank acts on the same step's agreement at the same time.
    """

    def __init__(self, *, on_cpu: bool) -> None:
        self._lag = 0 if on_cpu else LAG
        self._queue: deque[tuple[GlobalBatch, PendingStep]] = deque()
        self._scale: float | None = None

    def push(self, batch: GlobalBatch, pending: PendingStep) -> Iterator[SettledStep]:
        """Add a step; the steps that are due to be read."""
        self._queue.append((batch, pending))
        while len(self._queue) > self._lag:
            began = time.perf_counter()
            settled = self._pop()
            if self._queue:  # the wait was for the device, and belongs to the step that was just handed to it
                self._queue[-1][1].notes["seconds"] += time.perf_counter() - began
            yield settled

    def drain(self) -> Iterator[SettledStep]:
        """All remaining steps; waits for the device."""
        while self._queue:
            yield self._pop()

    def _pop(self) -> SettledStep:
        batch, pending = self._queue.popleft()
        agreed, extras = pending.read()
        scale = extras.get("loss_scale")
        skipped = scale is not None and self._scale is not None and scale < self._scale
        self._scale = scale
        record = StepRecord(
            step=batch.step,
            epoch=batch.epoch,
            loss=agreed.loss,
            samples=batch.size,
            weight=agreed.weight,
            lr=pending.notes["lr"],
            seconds=pending.notes["seconds"],
            phases=pending.times.seconds(),
            extras={**agreed.metrics, **extras},
            skipped=skipped,
        )
        return SettledStep(batch, agreed, record, pending)
