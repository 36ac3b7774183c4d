"""A task of your own: tell two spirals apart. Copy this file and change the four methods."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from stoker import Loss, Task


class Spirals(Task):
    """Two interleaved spirals in the plane, made up from a seed."""

    def __init__(self, samples: int = 2000, noise: float = 0.05) -> None:
        generator = torch.Generator().manual_seed(0)
        arm = torch.arange(samples) % 2
        turn = torch.rand(samples, generator=generator).sqrt() * 3 * torch.pi
        angle = turn + arm * torch.pi
        points = torch.stack([angle.cos(), angle.sin()], dim=1) * turn[:, None] / 10
        self.points = points + noise * torch.randn(samples, 2, generator=generator)
        self.arm = arm

    def build_model(self) -> nn.Module:
        layers = [layer for _ in range(3) for layer in (nn.Linear(64, 64), nn.GELU())]
        return nn.Sequential(nn.Linear(2, 64), nn.GELU(), *layers, nn.Linear(64, 2))

    def train_data(self) -> TensorDataset:
        return TensorDataset(self.points[:-500], self.arm[:-500])

    def eval_data(self) -> TensorDataset:
        return TensorDataset(self.points[-500:], self.arm[-500:])

    def loss(self, model: nn.Module, batch: list[torch.Tensor]) -> Loss:
        points, arm = batch
        logits = model(points)
        right = (logits.argmax(1) == arm).sum()
        return Loss(F.cross_entropy(logits, arm, reduction="sum"), len(arm), {"accuracy": right})
