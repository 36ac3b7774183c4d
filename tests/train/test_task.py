from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset
from torchmetrics.regression import MeanAbsoluteError

import stoker
from stoker import Task
from stoker.train.task import own_collate, to_device
from tests.runs import QUIET

INPUTS = torch.linspace(-1, 1, 64)[:, None]
DATA = TensorDataset(INPUTS, 3 * INPUTS + 1)


def test_a_plain_module_in_a_few_lines(tmp_path: Path) -> None:
    task = stoker.make_task(
        lambda: nn.Linear(1, 1), DATA, F.mse_loss, eval_data=DATA, metrics={"off": MeanAbsoluteError()}
    )
    spec = {"task": "given", "duration": "80 epochs", "optimizer": {"lr": 0.1}, "output": str(tmp_path), **QUIET}
    train: Any = stoker.train
    result = train(task, spec, "batch.global_size=16")
    assert result.evaluation["off"] < 0.01
    assert result.evaluation["loss"] == pytest.approx(
        F.mse_loss(result.model(INPUTS), DATA.tensors[1]).item(), rel=1e-4
    )


def test_a_function_makes_a_new_model_under_the_seed() -> None:
    task = stoker.make_task(lambda: nn.Linear(1, 1), DATA, F.mse_loss)
    assert task.build_model() is not task.build_model()
    ready = nn.Linear(1, 1)
    assert stoker.make_task(ready, DATA, F.mse_loss).build_model() is ready
    assert task.eval_data() is None
    assert not task.metrics()


def test_the_mean_becomes_a_sum() -> None:
    model = nn.Linear(1, 1)
    inputs, targets = DATA[:10]
    loss = stoker.make_task(model, DATA, F.mse_loss).loss(model, (inputs, targets))
    assert loss.weight == 10
    torch.testing.assert_close(loss.total, (model(inputs) - targets).square().sum())


@pytest.mark.parametrize("method", ["build_model", "train_data"])
def test_what_must_be_defined(method: str) -> None:
    class Empty(Task):
        pass

    with pytest.raises(NotImplementedError, match=rf"Empty must define {method}\(\)"):
        getattr(Empty(), method)()


def test_own_collate() -> None:
    class Own(Task):
        def collate(self, samples: list[Any]) -> Any:
            return samples

    assert own_collate(Task()) is None
    collate = own_collate(Own())
    assert collate is not None
    assert collate([1]) == [1]


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


def test_nested_batches_keep_their_shape() -> None:
    one, whole = torch.ones(2), torch.ones(2, dtype=torch.int64)
    batch = {"a": [one, (whole, "text")], "b": Pair(one, 3), "c": None}
    moved = to_device(batch, torch.device("meta"), dtype=torch.float64)
    assert moved["a"][0].device.type == "meta"
    assert (moved["a"][0].dtype, moved["a"][1][0].dtype) == (torch.float64, torch.int64)
    assert moved["a"][1][1] == "text"
    assert type(moved["a"][1]) is tuple
    assert type(moved["b"]) is Pair
    assert (moved["b"].left.dtype, moved["b"].right, moved["c"]) == (torch.float64, 3, None)
    assert to_device(one, torch.device("cpu")) is one
