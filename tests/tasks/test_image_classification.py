from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from stoker.errors import RunError, UserError
from stoker.tasks.image_classification import ImageClassification
from tests.runs import train_once

CLASSES = ("blue", "green", "red")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Noise with a tint, in the folders that the task wants."""
    generator = np.random.default_rng(0)
    for split, count in (("train", 8), ("val", 5)):
        for channel, name in enumerate(reversed(CLASSES)):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(0, 120, (40, 48, 3), dtype=np.uint8)
                pixels[..., channel] += 120
                Image.fromarray(pixels).save(folder / f"{number}.png")
    return tmp_path / "images"


def test_it_learns_and_counts_every_image(images: Path, tmp_path: Path) -> None:
    task = ImageClassification(str(images), model="squeezenet1_1", image_size=40)
    assert task.classes == list(CLASSES)
    outcome = train_once(
        task,
        tmp_path / "run",
        "duration=12 epochs",
        "batch.global_size=8",
        "optimizer.lr=1e-3",
        "evaluate.every=12 epochs",
    )
    assert [row["samples"] for row in outcome.evaluations] == [15]
    assert outcome.evaluations[-1]["accuracy"] > 0.6, "guessing gets a third"
    assert outcome.rows[0].keys() >= {"loss", "accuracy"}


def test_training_is_augmented_and_evaluation_is_not(images: Path) -> None:
    task = ImageClassification(str(images), model="resnet18", image_size=32)
    train, held_out = task.train_data(), task.eval_data()
    assert held_out is not None
    assert train[0][0].shape == held_out[0][0].shape == (3, 32, 32)
    assert not torch.equal(train[0][0], train[0][0])
    assert torch.equal(held_out[0][0], held_out[0][0])


def test_an_unreadable_image_is_named(images: Path, tmp_path: Path) -> None:
    (images / "train" / "red" / "torn.png").write_bytes(b"\x89PNG not really")
    task = ImageClassification(str(images), model="squeezenet1_1", image_size=32)
    with pytest.raises(RunError, match=r"cannot be read: UnidentifiedImageError: .*torn\.png"):
        train_once(task, tmp_path / "run", "duration=1 epochs", "batch.global_size=5")


def test_weights_that_fit_are_taken(images: Path, tmp_path: Path) -> None:
    task = ImageClassification(str(images), model="resnet18", image_size=32)
    donor = {name: torch.full_like(value, 0.5) for name, value in task.build_model().state_dict().items()}
    donor["fc.weight"], donor["fc.bias"] = torch.zeros(1000, 512), torch.zeros(1000)
    save_file(donor, tmp_path / "donor.safetensors")
    model = ImageClassification(
        str(images), model="resnet18", image_size=32, weights=str(tmp_path / "donor.safetensors")
    ).build_model()
    assert bool((model.get_parameter("conv1.weight") == 0.5).all())
    assert model.get_parameter("fc.weight").shape == (3, 512)


def test_mistakes_are_sentences(images: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no classifier 'resnet5': did you mean 'resnet50'\?"):
        ImageClassification(str(images), model="resnet5")
    with pytest.raises(UserError, match=r"there is no folder .*nowhere/train"):
        ImageClassification(str(tmp_path / "nowhere"))
    (images / "val" / "yellow").mkdir()
    with pytest.raises(UserError, match="yellow"):
        ImageClassification(str(images))
    (images / "val" / "yellow").rmdir()
    task = ImageClassification(str(images), weights="missing.pt")
    with pytest.raises(UserError, match="does not exist"):
        task.build_model()
