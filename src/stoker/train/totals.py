"""What all ranks agree on in each step: one small vector, added up over the ranks while backward runs.

The vector holds the summed loss, its weight, task metrics, the votes to stop, and rank 0's clock. Every rank
reads the same vector of the same step, so every decision taken from it falls at the same step on all ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

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
        self._losses: list[tuple[MicroBatch, Loss]] = []
        self._names: list[str] = []

    def add(self, micro: MicroBatch, loss: Loss) -> None:
        """Count a micro-batch; a ghost only tells which metrics there are."""
        self._names = sorted(loss.metrics)
        if not micro.ghost:
            self._losses.append((micro, replace(loss, total=loss.total.detach())))  # not the graph with it

    def vector(self, votes: Votes) -> Tensor:
        """What this rank brings, on the world's device; asked for once all micro-batches are counted."""
        sums: list[Tensor | float] = [
            _sum([loss.total for _, loss in self._losses]),
            _sum([loss.weight for _, loss in self._losses]),
            float(votes.stop),
            float(votes.save_failed),
            votes.seconds if self._world.is_first else 0.0,
            *(_sum([loss.metrics[name] for _, loss in self._losses]) for name in self._names),
        ]
        if self._world.on_cpu:
            return torch.tensor([float(value) for value in sums], dtype=torch.float64)
        return _on_device(sums, self._world.device)

    @property
    def names(self) -> list[str]:
        """Task metrics in the vector's order."""
        return self._names

    def bad_micro_batches(self) -> list[tuple[MicroBatch, float]]:
        """This rank's micro-batches whose loss is no number."""
        losses = [(micro, float(loss.total)) for micro, loss in self._losses]
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


def _sum(values: list[Tensor | float] | list[Tensor]) -> Tensor | float:
    """Sum in double precision."""
    if not values:
        return 0.0
    doubled = [value.detach().double() if isinstance(value, Tensor) else float(value) for value in values]
    total = doubled[0]
    for value in doubled[1:]:
        total = total + value
    return total


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
    _host: Tensor | None = None
    _event: torch.Event | None = None

    def copy_to_host(self, vector: Tensor) -> None:
        """Start the copy of everything to be read."""
        everything = torch.cat([vector, *(value.detach().double().reshape(1) for value in self.extras.values())])
        if everything.device.type == "cpu":
            self._host = everything
            return
        self._host = torch.empty_like(everything, device="cpu", pin_memory=True)
        self._host.copy_(everything, non_blocking=True)
        self._event = torch.Event(everything.device)
        self._event.record()

    def read(self) -> tuple[Agreed, dict[str, float]]:
        """The results; waits until the device has them."""
        assert self._host is not None
        if self._event is not None:
            self._event.synchronize()
        values: list[float] = self._host.tolist()
        count = _HEAD + len(self.totals.names)
        return read_agreed(values[:count], self.totals.names), dict(zip(self.extras, values[count:], strict=True))
