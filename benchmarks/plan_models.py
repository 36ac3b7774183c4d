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


class RecurrentBlock(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, batch_first=True)
        self.norm = nn.LayerNorm(width)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.norm(self.lstm(sequence)[0])


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 128)
        self.blocks = nn.ModuleList([RecurrentBlock(128, 256), RecurrentBlock(256, 256)])
        self.output = nn.Linear(256, 2000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        sequence = self.embedding(tokens)
        for block in self.blocks:
            sequence = block(sequence)
        return self.output(sequence)


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
        self.top = nn.ModuleList(nn.Sequential(nn.Linear(size, 128), nn.ReLU()) for size in (32 + 36, 128, 128))
        self.last = nn.Linear(128, 1)

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        x = self.bottom(dense)
        parts = torch.stack([x, *(table(sparse[:, i]) for i, table in enumerate(self.tables))], dim=1)
        pairs = torch.bmm(parts, parts.transpose(1, 2))
        rows, columns = torch.tril_indices(9, 9, -1)
        x = torch.cat([x, pairs[:, rows, columns]], dim=1)
        for block in self.top:
            x = block(x)
        return self.last(x)


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


class Vision(nn.Module):
    """A vision transformer: patches, encoder layers with dropout, a class token."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 8, 8)
        self.token = nn.Parameter(torch.zeros(1, 1, 192))
        self.places = nn.Parameter(torch.zeros(1, 65, 192))
        layers = (nn.TransformerEncoderLayer(192, 6, 768, activation="gelu", batch_first=True) for _ in range(4))
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(192, 100)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.size(0), -1, -1), x], 1) + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def vision(micro_batch: int = 8):
    labels = torch.randint(0, 100, (micro_batch,))
    return Vision(), torch.randn(micro_batch, 3, 64, 64), lambda output: F.cross_entropy(output, labels)


def _double(inputs: int, width: int) -> nn.Sequential:
    first = (nn.Conv2d(inputs, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True))
    return nn.Sequential(*first, nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())


class Segmenter(nn.Module):
    """A U-Net: what is pooled on the way down is joined again on the way up."""

    def __init__(self, widths: tuple[int, ...] = (16, 32, 64, 128)) -> None:
        super().__init__()
        self.down = nn.ModuleList(_double(a, b) for a, b in pairwise((3, *widths)))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairwise(widths))
        self.up = nn.ModuleList(_double(2 * width, width) for width in widths[:-1])
        self.head = nn.Conv2d(widths[0], 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        kept, x = [], images
        for block in self.down:
            x = block(x if not kept else F.max_pool2d(x, 2))
            kept.append(x)
        for level in (2, 1, 0):
            x = self.up[level](torch.cat([kept[level], self.grow[level](x)], 1))
        return self.head(x)


def segmenter(micro_batch: int = 4):
    wanted = torch.randint(0, 4, (micro_batch, 96, 96))
    return Segmenter(), torch.randn(micro_batch, 3, 96, 96), lambda output: F.cross_entropy(output, wanted)


class SpeechBlock(nn.Module):
    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.widen = nn.Conv1d(width, 2 * width, 3, padding=dilation, dilation=dilation)
        self.back = nn.Conv1d(width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.back(F.glu(self.widen(self.norm(x)), 1))


class Speech(nn.Module):
    """Dilated convolutions over a long signal, gated, without recurrence."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 64, 16, 8)
        self.blocks = nn.ModuleList(SpeechBlock(64, 2**power) for power in range(6))
        self.head = nn.Linear(64, 35)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = self.first(signal)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(-1))


def speech(micro_batch: int = 8):
    labels = torch.randint(0, 35, (micro_batch,))
    return Speech(), torch.randn(micro_batch, 1, 8192), lambda output: F.cross_entropy(output, labels)


class TabularBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(self.drop(F.silu(self.first(self.norm(x)))))


class Tabular(nn.Module):
    """A residual perceptron over a table's columns."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 384)
        self.blocks = nn.ModuleList(TabularBlock(384) for _ in range(4))
        self.head = nn.Linear(384, 1)

    def forward(self, columns: torch.Tensor) -> torch.Tensor:
        x = self.first(columns)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tabular(micro_batch: int = 128):
    wanted = torch.randn(micro_batch, 1)
    return Tabular(), torch.randn(micro_batch, 64), lambda output: F.mse_loss(output, wanted)
