"""Handwritten digits: 1,797 images of 8 x 8 pixels that come with scikit-learn, so nothing is downloaded."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from torchmetrics.classification import MulticlassAccuracy

from stoker import Evaluation, Loss, Task

CLASSES = 10
HELD_OUT = 5  # every fifth image is held out


class Digits(Task):
    """Which digit is it?"""

    def __init__(self, width: int = 32) -> None:
        self.width = width
        images, labels = load_digits(return_X_y=True)
        self.images = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
        self.labels = torch.tensor(labels)

    def build_model(self) -> nn.Module:
        width = self.width
        return nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.GELU(),
            nn.Conv2d(width, width, 3, padding=1), nn.GroupNorm(4, width), nn.GELU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.GELU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(2 * width * 4, CLASSES),
        )  # fmt: skip

    def _split(self, held_out: bool) -> TensorDataset:
        chosen = (torch.arange(len(self.labels)) % HELD_OUT == 0) == held_out
        return TensorDataset(self.images[chosen], self.labels[chosen])

    def train_data(self) -> TensorDataset:
        return self._split(held_out=False)

    def eval_data(self) -> TensorDataset:
        return self._split(held_out=True)

    def loss(self, model: nn.Module, batch: list[torch.Tensor]) -> Loss:
        return self.evaluate(model, batch).loss

    def metrics(self) -> dict[str, MulticlassAccuracy]:
        return {"accuracy": MulticlassAccuracy(CLASSES, average="micro")}

    def evaluate(self, model: nn.Module, batch: list[torch.Tensor]) -> Evaluation:
        images, labels = batch
        logits = model(images)
        loss = Loss(F.cross_entropy(logits, labels, reduction="sum"), len(labels))
        return Evaluation(loss, logits, labels)
