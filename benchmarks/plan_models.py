"""Small models of many kinds for the planner's benchmarks: each returns (model, inputs, loss)."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F


def cnn(micro_batch: int = 8):
    import torchvision

    labels = torch.randint(0, 10, (micro_batch,))
    model = torchvision.models.resnet18(num_classes=10)
    return model, torch.randn(micro_batch, 3, 96, 96), lambda output: F.cross_entropy(output, labels)


def wide_cnn(micro_batch: int = 8):
    import torchvision

    labels = torch.randint(0, 10, (micro_batch,))
    model = torchvision.models.mobilenet_v3_small(num_classes=10)
    return model, torch.randn(micro_batch, 3, 96, 96), lambda output: F.cross_entropy(output, labels)


def transformer(micro_batch: int = 4):
    from stoker.plan.models.config import TransformerConfig
    from stoker.plan.models.transformer import Transformer
    from stoker.plan.workload import Piece

    config = TransformerConfig("small", 4000, 256, 4, 8, 4, 704, 128, 32)
    targets = torch.randint(0, 4000, (micro_batch * 128,))
    model = Transformer(config, Piece())
    if model.angles is not None and not model.angles.is_meta:
        model.angles.fill_(1.0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    tokens = torch.randint(0, 4000, (micro_batch, 128))
    return model, tokens, lambda output: F.cross_entropy(output.flatten(0, 1).float(), targets)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 128)
        self.lstm = nn.LSTM(128, 256, num_layers=2, batch_first=True)
        self.output = nn.Linear(256, 2000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.output(self.lstm(self.embedding(tokens))[0])


def lstm(micro_batch: int = 8):
    targets = torch.randint(0, 2000, (micro_batch * 64,))
    tokens = torch.randint(0, 2000, (micro_batch, 64))
    return Recurrent(), tokens, lambda output: F.cross_entropy(output.flatten(0, 1), targets)


class Recommender(nn.Module):
    """Large embedding tables under a small network, as in click prediction."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20000, 32) for _ in range(8))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(32 + 36, 128), nn.ReLU(), nn.Linear(128, 1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        parts = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], dim=1)
        pairs = torch.bmm(parts, parts.transpose(1, 2))
        rows, columns = torch.tril_indices(9, 9, -1)
        return self.top(torch.cat([x, pairs[:, rows, columns]], dim=1))


def recommender(micro_batch: int = 256):
    clicks = torch.rand(micro_batch, 1)
    inputs = (torch.randn(micro_batch, 13), torch.randint(0, 20000, (micro_batch, 8)))
    return Recommender(), inputs, lambda output: F.binary_cross_entropy_with_logits(output, clicks)


class Detector(nn.Module):
    """A dense one-stage detector: backbone, feature pyramid, heads over fixed anchors."""

    def __init__(self, classes: int = 20, anchors: int = 3) -> None:
        super().__init__()
        widths = (32, 64, 128, 128)
        stages = [nn.Sequential(nn.Conv2d(3, widths[0], 3, 2, 1), nn.BatchNorm2d(widths[0]), nn.ReLU())]
        for before, width in pairwise(widths):
            conv = nn.Conv2d(before, width, 3, 2, 1, bias=False)
            stages.append(nn.Sequential(conv, nn.BatchNorm2d(width), nn.ReLU()))
        self.stages = nn.ModuleList(stages)
        self.lateral = nn.ModuleList(nn.Conv2d(width, 64, 1) for width in widths[1:])
        self.classify = nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, classes * anchors, 3, 1, 1))
        self.locate = nn.Sequential(nn.Conv2d(64, 64, 3, 1, 1), nn.ReLU(), nn.Conv2d(64, 4 * anchors, 3, 1, 1))
        self.classes = classes

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features, x = [], images
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        pyramid = [lateral(f) for lateral, f in zip(self.lateral, features[1:], strict=True)]
        for level in (1, 0):
            pyramid[level] = pyramid[level] + F.interpolate(pyramid[level + 1], scale_factor=2)
        scores = [self.classify(p).permute(0, 2, 3, 1).reshape(images.size(0), -1, self.classes) for p in pyramid]
        boxes = [self.locate(p).permute(0, 2, 3, 1).reshape(images.size(0), -1, 4) for p in pyramid]
        return torch.cat(scores, 1), torch.cat(boxes, 1)


def detector(micro_batch: int = 4):
    images = torch.randn(micro_batch, 3, 128, 128)
    count = 3 * (32**2 + 16**2 + 8**2)
    wanted = (torch.rand(micro_batch, count, 20) > 0.97).float()
    places = torch.randn(micro_batch, count, 4)

    def loss(output: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        scores, boxes = output
        probability = torch.sigmoid(scores)
        cross = F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        focal = cross * (1 - (probability * wanted + (1 - probability) * (1 - wanted))) ** 2
        return focal.mean() + F.smooth_l1_loss(boxes, places)

    return Detector(), images, loss
