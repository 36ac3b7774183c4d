"""What a user brings: a model, data, a loss. The public face of training, small enough to learn in minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset, default_collate

if TYPE_CHECKING:
    from torchmetrics import Metric


@dataclass(frozen=True)
class Loss:
    """What one batch contributes to the loss.

    Sums, not means: only then is the loss of a step the same however its samples are cut into micro-batches
    and spread over ranks.

    Attributes:
        total: Sum of the loss over the batch's items; a scalar with a gradient.
        weight: Number of items: samples, or unpadded tokens.
        metrics: Further sums over the same items, such as the count of right answers; reported divided by
            the weight.
    """

    total: Tensor
    weight: Tensor | float
    metrics: Mapping[str, Tensor | float] = field(default_factory=dict[str, "Tensor | float"])


@dataclass(frozen=True)
class Evaluation:
    """What one batch contributes to an evaluation.

    Attributes:
        loss: As in training; reported as the mean over the whole evaluation set.
        outputs: First argument of each metric's `update`; None if the task has no metrics.
        targets: Second argument.
    """

    loss: Loss
    outputs: Tensor | None = None
    targets: Tensor | None = None


class Task:
    """A model, its data and its loss.

    Subclass it and define `build_model`, `train_data` and `loss`; the rest is optional. A task knows nothing
    of ranks, devices, precision or checkpoints.

    >>> class Line(Task):
    ...     def build_model(self):
    ...         return nn.Linear(1, 1)
    ...     def train_data(self):
    ...         x = torch.linspace(-1, 1, 64)[:, None]
    ...         return torch.utils.data.TensorDataset(x, 2 * x + 1)
    ...     def loss(self, model, batch):
    ...         x, y = batch
    ...         return Loss((model(x) - y).square().sum(), len(x))
    """

    static_graph: bool = False
    """Set it if every step uses the same parameters in the same way; DDP then plans its exchange once."""

    def build_model(self) -> nn.Module:
        """A new model on the CPU. Called under the run's seed: the same weights on every rank."""
        raise NotImplementedError(f"{type(self).__name__} must define build_model()")

    def train_data(self) -> Dataset[Any]:
        """Map-style dataset to train on."""
        raise NotImplementedError(f"{type(self).__name__} must define train_data()")

    def eval_data(self) -> Dataset[Any] | None:
        """Map-style dataset that is held out; None: nothing is evaluated."""
        return None

    def collate(self, samples: list[Any]) -> Any:
        """Join samples into a batch."""
        return default_collate(samples)

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """The loss of one batch, already on the model's device. Sums over the batch's items."""
        raise NotImplementedError(f"{type(self).__name__} must define loss()")

    def metrics(self) -> Mapping[str, Metric]:
        """Metrics of torchmetrics to compute on the held-out data, by the name they are reported under."""
        return {}

    def evaluate(self, model: nn.Module, batch: Any) -> Evaluation:
        """What one held-out batch contributes; called without gradients and with the model in eval mode."""
        return Evaluation(self.loss(model, batch))

    def blocks(self, model: nn.Module) -> Sequence[nn.Module]:
        """The repeated blocks for activation checkpointing; empty: they are searched for."""
        del model
        return ()


class FunctionTask(Task):
    """A task made of a plain module, a dataset and a loss function: see `make_task`."""

    def __init__(
        self,
        model: nn.Module | Callable[[], nn.Module],
        train_data: Dataset[Any],
        loss: Callable[[Any, Any], Tensor],
        eval_data: Dataset[Any] | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> None:
        self._model, self._train_data, self._loss = model, train_data, loss
        self._eval_data, self._metrics = eval_data, dict(metrics or {})

    def build_model(self) -> nn.Module:
        """The module itself, or a new one from the function."""
        return self._model if isinstance(self._model, nn.Module) else self._model()

    def train_data(self) -> Dataset[Any]:
        """The dataset."""
        return self._train_data

    def eval_data(self) -> Dataset[Any] | None:
        """The held-out dataset."""
        return self._eval_data

    def metrics(self) -> Mapping[str, Metric]:
        """The metrics."""
        return self._metrics

    def loss(self, model: nn.Module, batch: Any) -> Loss:
        """The loss function's mean over the batch, times its size."""
        return self._parts(model, batch)[0]

    def evaluate(self, model: nn.Module, batch: Any) -> Evaluation:
        """Loss, and the model's output beside the target for the metrics."""
        return Evaluation(*self._parts(model, batch))

    def _parts(self, model: nn.Module, batch: Any) -> tuple[Loss, Tensor, Tensor]:
        inputs, targets = batch
        outputs = model(inputs)
        count = targets.shape[0]
        return Loss(self._loss(outputs, targets) * count, count), outputs, targets


def make_task(
    model: nn.Module | Callable[[], nn.Module],
    train_data: Dataset[Any],
    loss: Callable[[Any, Any], Tensor],
    *,
    eval_data: Dataset[Any] | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Task:
    """A task from a plain module, a dataset of (input, target) pairs and a loss function.

    Args:
        model: A module, or a function that builds one. A ready module has weights already, so `seed` does not
            decide them.
        train_data: Map-style dataset of (input, target).
        loss: `loss(outputs, targets)`, the *mean* over the batch's samples, such as `F.cross_entropy`.
        eval_data: Held-out dataset of the same kind.
        metrics: torchmetrics by name; updated with (outputs, targets).
    """
    return FunctionTask(model, train_data, loss, eval_data, metrics)


def own_collate(task: Task) -> Callable[[list[Any]], Any] | None:
    """The task's collate if it has one of its own; None for torch's default, which has a faster path."""
    return None if type(task).collate is Task.collate else task.collate


def to_device(batch: Any, device: torch.device, *, dtype: torch.dtype | None = None) -> Any:
    """Move all tensors of a nested batch.

    Args:
        batch: Tensors in lists, tuples, named tuples and mappings.
        device: Where to; asynchronous from page-locked memory.
        dtype: If given, floating-point tensors are converted to it.
    """
    if device.type == "cpu" and dtype is None:
        return batch  # data lies there already

    def move(tensor: Tensor) -> Tensor:
        wanted = dtype if dtype is not None and tensor.is_floating_point() else None
        return tensor.to(device, wanted, non_blocking=True)

    return map_tensors(batch, move)


def map_tensors(batch: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """A nested batch with every tensor replaced by what `change` makes of it.

    Args:
        batch: Tensors in lists, tuples, named tuples and mappings; anything else stays as it is.
        change: Called once for each tensor.
    """
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(value, change) for key, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(value, change) for value in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(value, change) for value in batch)
    return batch
