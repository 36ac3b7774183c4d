"""An overflow of fp16 gradients skips the step on all ranks together, lowers the scale, and the run goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from stoker import Loss
from tests.ranks import run_ranks
from tests.runs import Outcome, train_once
from tests.tasks_for_tests import Blobs

OVERFLOW_AT = 4


class Overflowing(Blobs):
    """Its gradients on one rank overflow fp16 in one step, while the loss itself stays finite."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.on_rank, self.calls = rank, 0
        self.weights_before: list[Tensor] = []

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        import os

        self.calls += 1
        self.weights_before.append(torch.cat([weight.detach().flatten() for weight in model.parameters()]).clone())
        found = super().loss(model, batch)
        if self.calls == OVERFLOW_AT and int(os.environ.get("RANK", "0")) == self.on_rank:
            weight = next(model.parameters())
            surge = weight.sum() * 1e36  # times the scale of 65536 this leaves float32
            return Loss(found.total + (surge - surge.detach()), found.weight)
        return found


def _train(output: Path, rank: int) -> tuple[Outcome, list[Tensor]]:
    task = Overflowing(rank)
    outcome = train_once(
        task, output, "precision=fp16", "duration=8 steps", "batch.global_size=12", evaluate={"every": "never"}
    )
    return outcome, task.weights_before


@pytest.mark.parametrize(("world_size", "rank"), [(1, 0), (2, 0), (2, 1), (3, 1)])
def test_overflow_on_one_rank(world_size: int, rank: int, tmp_path: Path) -> None:
    results: list[Any] = run_ranks(_train, world_size, tmp_path, rank)
    for result in results:
        assert not isinstance(result, BaseException), result
        _, before = result
        assert torch.equal(before[OVERFLOW_AT], before[OVERFLOW_AT - 1]), "the step was not skipped"
        assert not torch.equal(before[OVERFLOW_AT + 1], before[OVERFLOW_AT]), "the run did not go on"
    rows = results[0][0].rows
    assert len(rows) == 8
    assert [row["step"] for row in rows if row.get("skipped")] == [OVERFLOW_AT]
    assert rows[OVERFLOW_AT - 1]["loss_scale"] == rows[OVERFLOW_AT - 2]["loss_scale"] / 2
    weights = [result[0].weights for result in results]
    for other in weights[1:]:
        assert all(torch.equal(other[name], weights[0][name]) for name in other)
