"""Workloads of torchvision models by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from stoker.errors import UserError
from stoker.plan.workload import Workload

_DETECTORS = ("fasterrcnn", "maskrcnn", "keypointrcnn", "retinanet", "fcos")


def vision_workload(name: str, *, micro_batch: int = 1, image_size: int = 224, **changes: Any) -> Workload:
    """Training of a torchvision model on square images of one size.

    Args:
        name: As in `torchvision.models.list_models()`.
        micro_batch: Images per rank and forward pass.
        image_size: Height and width.
        changes: Any other field of the workload.

    Raises:
        UserError: If torchvision has no such model.
    """
    import torchvision

    known = torchvision.models.list_models()
    if name not in known:
        close = [other for other in known if other.startswith(name[:4])][:8]
        hint = f"close to it: {', '.join(close)}" if close else "see torchvision.models.list_models()"
        raise UserError(f"torchvision has no model {name!r} ({hint}); or give module:callable or a config.json")
    if name.startswith(_DETECTORS) or name.startswith("ssd"):
        raise UserError(
            f"{name} picks boxes by their values, which no trace can: give module:callable with fixed boxes"
        )
    extra = {"init_weights": False} if name in ("inception_v3", "googlenet") else {}

    def build() -> nn.Module:
        return torchvision.models.get_model(name, weights=None, **extra)

    return image_workload(name, build, micro_batch=micro_batch, image_size=image_size).with_(**changes)


def image_workload(name: str, build: Callable[[], nn.Module], *, micro_batch: int, image_size: int) -> Workload:
    """Training of a model that classifies square images of one size, or their pixels.

    Args:
        name: For people.
        build: Makes the model.
        micro_batch: Images per rank and forward pass.
        image_size: Height and width.
    """

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        images = torch.empty(size, 3, image_size, image_size)
        return images, torch.empty(size, dtype=torch.long).fill_(0)

    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        images, labels = data
        output = model(images)
        if isinstance(output, dict):  # segmentation
            maps = torch.zeros(images.size(0), *output["out"].shape[-2:], dtype=torch.long, device=images.device)
            return sum((F.cross_entropy(o, maps) for o in output.values()), torch.zeros((), device=images.device))
        if isinstance(output, tuple):  # inception and googlenet: auxiliary heads
            heads = [o for o in output if o is not None]
            return sum((F.cross_entropy(o, labels) for o in heads), torch.zeros((), device=images.device))
        return F.cross_entropy(output, labels)

    return Workload(
        name=name,
        build=lambda _piece: build(),
        batch=batch,
        loss=loss,
        samples_unit="images",
        micro_batch=micro_batch,
        optimizer="sgd",
        channels_last=True,
    )
