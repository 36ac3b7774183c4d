"""Small tasks that tests train."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset

from stoker import Evaluation, Loss, Task

if TYPE_CHECKING:
    from torchmetrics import Metric

VOCABULARY, PADDING = 23, 0


class Tokens(Task):
    """Predict the next token of sequences of very different lengths: each weighs what it has unpadded tokens."""

    def __init__(self, samples: int = 67, length: int = 12) -> None:
        generator = torch.Generator().manual_seed(3)
        tokens = torch.randint(1, VOCABULARY, (samples, length), generator=generator)
        lengths = torch.randint(2, length + 1, (samples, 1), generator=generator)
        self.tokens = torch.where(torch.arange(length) < lengths, tokens, PADDING)

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Embedding(VOCABULARY, 16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, VOCABULARY))

    def train_data(self) -> Dataset[Any]:
        return TensorDataset(self.tokens)

    def eval_data(self) -> Dataset[Any]:
        return TensorDataset(self.tokens[:13])

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        (tokens,) = batch
        logits, targets = model(tokens[:, :-1]), tokens[:, 1:]
        right = ((logits.argmax(-1) == targets) & (targets != PADDING)).sum()
        total = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=PADDING, reduction="sum")
        return Loss(total, (targets != PADDING).sum(), {"accuracy": right})


class Blobs(Task):
    """Tell clouds of points apart; a plain classifier, weighed by samples, with a metric and dropout if wanted."""

    def __init__(self, samples: int = 96, held_out: int = 31, dropout: float = 0.0, poison: int | None = None) -> None:
        generator = torch.Generator().manual_seed(5)
        self.points = torch.randn(samples, 6, generator=generator)
        self.labels = (self.points[:, 0] > 0).long() + (self.points[:, 1] > 0).long()
        if poison is not None:
            self.points[poison] = torch.nan
        self.held_out, self.dropout = held_out, dropout

    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Dropout(self.dropout), nn.Linear(24, 3))

    def train_data(self) -> Dataset[Any]:
        return TensorDataset(self.points, self.labels)

    def eval_data(self) -> Dataset[Any]:
        return TensorDataset(self.points[: self.held_out], self.labels[: self.held_out])

    def metrics(self) -> dict[str, Metric]:
        from torchmetrics.classification import MulticlassAccuracy

        return {"accuracy": MulticlassAccuracy(3, average="micro")}

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        return self.evaluate(model, batch).loss

    def evaluate(self, model: nn.Module, batch: list[Tensor]) -> Evaluation:
        points, labels = batch
        logits = model(points)
        return Evaluation(Loss(F.cross_entropy(logits, labels, reduction="sum"), len(labels)), logits, labels)
