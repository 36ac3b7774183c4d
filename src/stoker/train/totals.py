"""What all ranks agree on in each step: one small vector, added up over the ranks while backward runs.

The vector holds the summed loss, its weight, task metrics, the votes to stop, and rank 0's clock. Every rank
reads the same vector of the same step, so every decision taken from it falls at the same step on all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import add

import torch
from torch import Tensor

from stoker.data.batches import MicroBatch
from stoker.train.clock import Times
from stoker.train.task import Loss
from stoker.train.world import World

_HEAD = 5  # loss, weight, stop votes, save-failure votes, clock
LAG = 2
"""Steps after which a device's results are read: the host runs ahead and never waits for the present step."""


@dataclass(frozen=True)
class Agreed:
    """A step's results, equal on all ranks.

    Attributes:
        loss: Mean over the step's weight.
        weight: Items over all ranks.
        metrics: Task metrics, means over the weight.
        stop_votes: Ranks that were told to stop.
        save_failures: Ranks whose background save failed.
        seconds: Training time so far by rank 0's clock.
    """

    loss: float
    weight: float
    metrics: Mapping[str, float]
    stop_votes: int
    save_failures: int
    seconds: float

    @property
    def finite(self) -> bool:
        """Whether the loss is a number."""
        return math.isfinite(self.loss)


@dataclass(frozen=True)
class Votes:
    """What this rank brings to the agreement besides its loss."""

    stop: bool = False
    save_failed: bool = False
    seconds: float = 0.0


class StepTotals:
    """Adds up one step's losses on this rank, then over all."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._micros: list[MicroBatch] = []
        self._parts: list[list[Tensor | float]] = []  # loss, weight and metrics of each of them
        self._names: list[str] = []

    def add(self, micro: MicroBatch, loss: Loss) -> None:
        """Count a micro-batch; a ghost only tells which metrics there are."""
        self._names = sorted(loss.metrics)
        if not micro.ghost:
            self._micros.append(micro)
            self._parts.append([
                self._kept(value) for value in (loss.total, loss.weight, *(loss.metrics[name] for name in self._names))
            ])  # fmt: skip

    def _kept(self, value: Tensor | float) -> Tensor | float:
        """Without its graph, and on the CPU as the number that it is; on a device that would mean to wait."""
        if not isinstance(value, Tensor):
            return float(value)
        return value.item() if self._world.on_cpu else value.detach().double()

    def vector(self, votes: Votes) -> Tensor:
        """What this rank brings, on the world's device; asked for once all micro-batches are counted."""
        columns = [reduce(add, column) for column in zip(*self._parts, strict=True)] or [0.0] * (2 + len(self._names))
        sums: list[Tensor | float] = [
            *columns[:2],
            float(votes.stop),
            float(votes.save_failed),
            votes.seconds if self._world.is_first else 0.0,
            *columns[2:],
        ]
        if self._world.on_cpu:
            return torch.tensor(sums, dtype=torch.float64)
        return _on_device(sums, self._world.device)

    @property
    def names(self) -> list[str]:
        """Task metrics in the vector's order."""
        return self._names

    def bad_micro_batches(self) -> list[tuple[MicroBatch, float]]:
        """This rank's micro-batches whose loss is no number."""
        losses = [(micro, float(parts[0])) for micro, parts in zip(self._micros, self._parts, strict=True)]
        return [(micro, value) for micro, value in losses if not math.isfinite(value)]


def _on_device(sums: list[Tensor | float], device: torch.device) -> Tensor:
    """Host and device scalars as one vector on the device, without waiting for it.

    `torch.tensor(..., device=...)` would wait; a copy from page-locked memory does not.
    """
    known = [0.0 if isinstance(value, Tensor) else value for value in sums]
    vector = torch.tensor(known, dtype=torch.float64, pin_memory=True).to(device, non_blocking=True)
    for place, value in enumerate(sums):
        if isinstance(value, Tensor):
            vector[place].copy_(value, non_blocking=True)
    return vector


def read_agreed(vector: list[float], names: list[str]) -> Agreed:
    """The vector in words; the mean of a step without weight is zero."""
    total, weight, stop, failed, seconds = vector[:_HEAD]
    per_item = 1 / weight if weight else 0.0
    return Agreed(
        loss=total * per_item,
        weight=weight,
        metrics={name: value * per_item for name, value in zip(names, vector[_HEAD:], strict=True)},
        stop_votes=round(stop),
        save_failures=round(failed),
        seconds=seconds,
    )


@dataclass
class PendingStep:
    """A step whose results may still be on the device.

    Attributes:
        extras: Further device scalars to read, by name.
        notes: What the host knows already.
    """

    totals: StepTotals
    times: Times
    notes: dict[str, float]
    extras: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    _known: list[float] | None = None
    _host: Tensor | None = None
    _event: torch.Event | None = None

    def copy_to_host(self, vector: Tensor | list[float]) -> None:
        """Start the copy of everything to be read.

        Args:
            vector: The step's agreement; a list of numbers where the host has them already.
        """
        if isinstance(vector, list):
            self._known = vector + [value.item() for value in self.extras.values()]
            return
        everything = torch.cat([vector, *(value.detach().double().reshape(1) for value in self.extras.values())])
        self._host = torch.empty_like(everything, device="cpu", pin_memory=True)
        self._host.copy_(everything, non_blocking=True)
        self._event = torch.Event(everything.device)
        self._event.record()

    def read(self) -> tuple[Agreed, dict[str, float]]:
        """The results; waits until the device has them."""
        values = self._values()
        count = _HEAD + len(self.totals.names)
        return read_agreed(values[:count], self.totals.names), dict(zip(self.extras, values[count:], strict=True))

    def _values(self) -> list[float]:
        if self._known is not None:
            return self._known
        assert self._host is not None
        assert self._event is not None
        self._event.synchronize()
        return self._host.tolist()
