"""Measuring on held-out data: each sample once, the same numbers over any number of ranks."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from stoker.data.batches import MicroBatch
from stoker.data.loader import checked
from stoker.errors import RunError
from stoker.train.parallel import Strategy
from stoker.train.precision import Precision
from stoker.train.step import Trainee
from stoker.train.task import Loss, to_device
from stoker.train.world import World

if TYPE_CHECKING:
    from torchmetrics import Metric  # it imports torchvision and scipy: as long as torch takes, and only for its users


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation found.

    Attributes:
        samples: Samples over all ranks.
        loss: Mean over the total weight.
        metrics: By name.
        seconds: Wall time.
    """

    samples: int
    loss: float
    metrics: dict[str, float]
    seconds: float


class Evaluator:
    """Evaluates a model on one dataset.

    Args:
        loader: This rank's batches, as (request, batch) pairs; asked for anew each time.
    """

    def __init__(
        self,
        loader: Iterable[tuple[MicroBatch, Any]],
        trainee: Trainee,
        strategy: Strategy,
        precision: Precision,
        world: World,
    ) -> None:
        self._loader, self._trainee, self._strategy = loader, trainee, strategy
        self._precision, self._world = precision, world
        self._metrics: dict[str, Metric] = {
            name: metric.to(world.device) for name, metric in trainee.task.metrics().items()
        }

    @torch.no_grad()
    def run(self) -> EvaluationResult:
        """One pass over the data; every rank must call it.

        Uses the model itself, not its wrapper: evaluation exchanges nothing between ranks, so they need not
        have the same number of batches.
        """
        began = time.perf_counter()
        self._strategy.share_buffers(self._trainee.module)
        self._trainee.module.eval()
        try:
            measured = [self._measure(*checked(pair, "evaluation")) for pair in self._loader]
        finally:
            self._trainee.module.train()
        sums = self._world.gather([one for one in measured if one is not None])
        samples, loss, extra = _mean(merged for part in sums for merged in part)
        metrics = {name: _value(name, metric.compute()) for name, metric in self._metrics.items()}
        for metric in self._metrics.values():
            metric.reset()
        return EvaluationResult(samples, loss, extra | metrics, time.perf_counter() - began)

    def _measure(self, request: MicroBatch, batch: Any) -> BatchSums | None:
        """One batch's sums; a ghost has none, but leaves its shape in the metrics."""
        batch = to_device(batch, self._world.device, dtype=self._precision.model_dtype)
        with self._precision.autocast():
            found = self._trainee.task.evaluate(self._trainee.model, batch)
        if found.outputs is not None:
            for metric in self._metrics.values():
                metric.update(found.outputs, found.targets)
                if request.ghost:
                    _empty(metric)
        return None if request.ghost else BatchSums.of(request, found.loss)


@dataclass(frozen=True)
class BatchSums:
    """One batch's sums, in double precision."""

    number: int
    samples: int
    total: float
    weight: float
    metrics: dict[str, float]

    @classmethod
    def of(cls, request: MicroBatch, loss: Loss) -> BatchSums:
        """Read a loss off the device."""
        return cls(
            number=request.batch.step,
            samples=len(request.indices),
            total=float(loss.total),
            weight=float(loss.weight),
            metrics={name: float(value) for name, value in loss.metrics.items()},
        )


def _empty(metric: Metric) -> None:
    """Forget every sample, but keep lists of samples as empty tensors of the right kind.

    torchmetrics exchanges one message per tensor in such a list: a rank without any would leave the others
    waiting for ever.
    """
    emptied = {
        name: [tensor[:0] for tensor in value] for name, value in metric.metric_state.items() if isinstance(value, list)
    }
    metric.reset()
    for name, tensors in emptied.items():
        setattr(metric, name, tensors)


def _mean(sums: Iterable[BatchSums]) -> tuple[int, float, dict[str, float]]:
    """Samples, mean loss and mean metrics; exact sums, so that the order of ranks leaves no trace."""
    parts = sorted(sums, key=lambda part: part.number)
    weight = math.fsum(part.weight for part in parts)
    if not parts or not weight:
        return 0, math.nan, {}
    names = parts[0].metrics
    return (
        sum(part.samples for part in parts),
        math.fsum(part.total for part in parts) / weight,
        {name: math.fsum(part.metrics[name] for part in parts) / weight for name in names},
    )


def _value(name: str, value: Any) -> float:
    if not isinstance(value, Tensor):
        raise RunError(
            f"the metric {name!r} gives a {type(value).__name__}; name each of its numbers in Task.metrics()"
        )
    if value.numel() != 1:
        raise RunError(
            f"the metric {name!r} gives {tuple(value.shape)} values; give it a mean, such as average='macro'"
        )
    return float(value)
