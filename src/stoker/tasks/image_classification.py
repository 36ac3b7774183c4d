"""Image classification on a folder of images, with any classifier of torchvision."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy
from torchvision import models
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from stoker.errors import UserError
from stoker.train import Evaluation, Loss, Task

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Channel statistics of ImageNet, RGB from 0 to 1: what torchvision's weights were trained with."""


class ImageClassification(Task):
    """Which class does an image belong to?

    Args:
        root: Folder with `train/` and, to evaluate, `val/`; each has a folder per class.
        model: Name of a classifier of torchvision, such as `resnet50`, `convnext_tiny` or `vit_b_16`.
        image_size: Height and width of the images that the model sees, in pixels. Evaluation takes the middle
            of an image whose short side is 256/224 of it.
        label_smoothing: Share of the target spread over the other classes, in training only.
        weights: File with a state dict to start from (`.safetensors` or what `torch.save` wrote); weights of
            another shape, such as those of the last layer, are left as they are.
    """

    def __init__(
        self,
        root: str,
        model: str = "resnet50",
        image_size: int = 224,
        label_smoothing: float = 0.0,
        weights: str | None = None,
    ) -> None:
        self.root, self.weights = Path(root), weights
        self.model, self.image_size, self.label_smoothing = model, image_size, label_smoothing
        _check_model(model)
        self._train = _image_folder(self.root / "train", self._train_transform())
        self._eval: ImageFolder | None = None
        if (self.root / "val").is_dir():
            self._eval = _image_folder(self.root / "val", self._eval_transform())
            _check_classes(self._train, self._eval)
        self.classes = self._train.classes

    def build_model(self) -> nn.Module:
        """The classifier with one output per class."""
        model = models.get_model(self.model, weights=None, num_classes=len(self.classes))
        if self.weights is not None:
            _load_fitting(model, Path(self.weights))
        return model

    def train_data(self) -> ImageFolder:
        """Images with random crops and flips."""
        return self._train

    def eval_data(self) -> ImageFolder | None:
        """Images as they are, their middle cut out."""
        return self._eval

    def metrics(self) -> dict[str, Metric]:
        """Top-1 accuracy, and top-5 where there are more than five classes."""
        count = len(self.classes)
        found: dict[str, Metric] = {"accuracy": MulticlassAccuracy(count, average="micro")}
        if count > 5:
            found["accuracy_top5"] = MulticlassAccuracy(count, average="micro", top_k=5)
        return found

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        """Cross-entropy, summed over the images."""
        images, labels = batch
        logits = _logits(model(images))
        total = F.cross_entropy(logits, labels, reduction="sum", label_smoothing=self.label_smoothing)
        return Loss(total, len(labels), {"accuracy": (logits.argmax(1) == labels).sum()})

    def evaluate(self, model: nn.Module, batch: list[Tensor]) -> Evaluation:
        """Cross-entropy without smoothing, and the logits for the metrics."""
        images, labels = batch
        logits = _logits(model(images))
        return Evaluation(Loss(F.cross_entropy(logits, labels, reduction="sum"), len(labels)), logits, labels)

    def _train_transform(self) -> v2.Compose:
        return v2.Compose(
            [v2.RandomResizedCrop(self.image_size, antialias=True), v2.RandomHorizontalFlip(), *_to_tensor()]
        )

    def _eval_transform(self) -> v2.Compose:
        short_side = round(self.image_size * 256 / 224)
        return v2.Compose([v2.Resize(short_side, antialias=True), v2.CenterCrop(self.image_size), *_to_tensor()])


def _to_tensor() -> list[nn.Module]:
    return [v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(list(MEAN), list(STD))]


def _logits(outputs: Any) -> Tensor:
    """Some of torchvision's models return the logits with those of auxiliary heads in training."""
    return outputs if isinstance(outputs, Tensor) else outputs.logits


def _check_model(name: str) -> None:
    known = models.list_models(module=models)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known[:8])}, ..."
        raise UserError(f"task.options.model: torchvision has no classifier {name!r}: {hint}")


def _image_folder(folder: Path, transform: v2.Compose) -> ImageFolder:
    if not folder.is_dir():
        raise UserError(
            f"task.options.root: there is no folder {folder}; "
            "root must hold train/ and val/, each with a folder per class"
        )
    try:
        return ImageFolder(str(folder), transform=transform)
    except FileNotFoundError as error:
        raise UserError(f"task.options.root: {str(error).rstrip('.')} (in {folder})") from None


def _check_classes(train: ImageFolder, held_out: ImageFolder) -> None:
    if train.classes != held_out.classes:
        only = sorted(set(train.classes) ^ set(held_out.classes))
        raise UserError(f"train/ and val/ must hold the same classes, but only one of them has {', '.join(only[:5])}")


def _load_fitting(model: nn.Module, file: Path) -> None:
    if not file.is_file():
        raise UserError(f"task.options.weights: the file does not exist: {file}")
    if file.suffix == ".safetensors":
        from safetensors.torch import load_file

        found = load_file(file)
    else:
        found = torch.load(file, map_location="cpu", weights_only=True)
    own = model.state_dict()
    fitting = {name: value for name, value in found.items() if name in own and own[name].shape == value.shape}
    if not fitting:
        raise UserError(
            f"task.options.weights: nothing in {file} fits this model; it holds {', '.join(list(found)[:3])}, ..."
        )
    model.load_state_dict(fitting, strict=False)
