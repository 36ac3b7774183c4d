from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix

from stoker import Evaluation, Loss
from stoker.data.loader import evaluation_requests, make_loader
from stoker.errors import RunError
from stoker.train.evaluate import Evaluator
from stoker.train.parallel.single import SingleStrategy
from stoker.train.precision import choose_precision
from stoker.train.ranks import Ranks
from stoker.train.step import Trainee
from stoker.train.world import World
from tests.runs import train_once
from tests.tasks_for_tests import Blobs, Tokens

WORLD = World(Ranks(), torch.device("cpu"))


def evaluator(task: Any, size: int = 4, model: nn.Module | None = None) -> Evaluator:
    torch.manual_seed(2)
    model = model or task.build_model()
    data = task.eval_data()
    loader = make_loader(
        data, evaluation_requests(len(data), size, 0, 1), collate=None, seed=0, workers=0, prefetch=1, pin_memory=False
    )
    trainee = Trainee(task, model, model, torch.optim.SGD(model.parameters(), lr=1.0), None)
    return Evaluator(loader, trainee, SingleStrategy(WORLD), choose_precision("fp32", WORLD.device), WORLD)


@pytest.mark.parametrize("size", [1, 4, 31, 50])
def test_each_sample_counts_once_whatever_the_batches(size: int) -> None:
    task = Blobs(held_out=31)
    made = evaluator(task, size)
    for _ in range(2):  # the second time nothing is left over from the first
        found = made.run()
        model = made._trainee.model  # pyright: ignore[reportPrivateUsage]
        points, labels = task.eval_data()[:]
        logits = model(points)
        assert found.samples == 31
        assert found.loss == pytest.approx(float(nn.functional.cross_entropy(logits, labels).detach()), rel=1e-6)
        assert found.metrics["accuracy"] == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
        assert found.seconds > 0


def test_the_mean_is_over_what_is_weighed() -> None:
    """Tokens without padding, of sequences of different lengths."""
    losses = [evaluator(Tokens(), size).run() for size in (1, 13)]
    assert losses[0].loss == pytest.approx(losses[1].loss, rel=1e-6)
    assert losses[0].metrics["accuracy"] == pytest.approx(losses[1].metrics["accuracy"])


def test_dropout_is_off_and_then_on_again() -> None:
    made = evaluator(Blobs(dropout=0.5))
    module = made._trainee.module  # pyright: ignore[reportPrivateUsage]
    module.train()
    assert made.run().loss == made.run().loss
    assert module.training


class Given(Blobs):
    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.metric = metric

    def metrics(self) -> Any:
        return {"given": self.metric}


class Several(Metric):
    def update(self, outputs: Tensor, targets: Tensor) -> None: ...

    def compute(self) -> dict[str, Tensor]:
        return {"a": torch.tensor(1.0)}


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        (MulticlassAccuracy(3, average=None), r"the metric 'given' gives \(3,\) values; give it a mean"),
        (MulticlassConfusionMatrix(3), r"gives \(3, 3\) values"),
        (Several(), r"gives a dict; name each of its numbers in Task\.metrics\(\)"),
    ],
)
def test_a_metric_that_is_no_number(metric: Metric, sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        evaluator(Given(metric)).run()


def test_a_sample_that_cannot_be_read(tmp_path: Path) -> None:
    class Torn(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 9

        def __getitem__(self, index: int) -> Any:
            if index == 7:
                raise OSError("torn image")
            return torch.zeros(6), torch.tensor(0)

    class Task(Blobs):
        def eval_data(self) -> Any:
            return Torn()

    with pytest.raises(RunError, match=r"sample 7 of the evaluation data cannot be read: OSError: torn image"):
        train_once(Task(), tmp_path, "duration=1 steps")


def test_no_weight_is_no_loss() -> None:
    class Weightless(Blobs):
        def evaluate(self, model: nn.Module, batch: list[Tensor]) -> Evaluation:
            return Evaluation(Loss(torch.tensor(0.0), 0.0))

        def metrics(self) -> dict[str, MulticlassAccuracy]:
            return {}

    found = evaluator(Weightless()).run()
    assert found.loss != found.loss
    assert found.samples == 0


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        ("1 epochs", [8, 16, 24, 32]),
        ("3 epochs", [24, 32]),
        ("10 steps", [10, 20, 30, 32]),
        ("8 steps", [8, 16, 24, 32]),
    ],
)
def test_when_evaluations_come(every: str, steps: list[int], tmp_path: Path) -> None:
    """And at the end, once."""
    found = train_once(Blobs(), tmp_path, "batch.global_size=12", "duration=32 steps", f"evaluate.every={every}")
    assert [row["step"] for row in found.evaluations] == steps
    assert [row["epoch"] for row in found.evaluations] == [(step - 1) // 8 for step in steps]
