from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import TensorDataset

from stoker.data.batches import Position, global_batches
from stoker.errors import UserError
from stoker.train.ranks import Ranks
from stoker.train.settle import settle
from stoker.train.spec import RunSpec
from stoker.train.world import World
from tests.runs import spec_of
from tests.tasks_for_tests import Blobs


class Data(Blobs):
    def __init__(self, train: Any, held_out: Any = None) -> None:
        self.train, self.other = train, held_out

    def train_data(self) -> Any:
        return self.train

    def eval_data(self) -> Any:
        return self.other


def world(size: int = 1) -> World:
    return World(Ranks(world_size=size, local_size=size), torch.device("cpu"))


def spec(*overrides: str) -> RunSpec:
    return spec_of(Path("runs"), "batch.global_size=12", *overrides)


def samples(count: int) -> TensorDataset:
    return TensorDataset(torch.zeros(count, 2))


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Data(samples(0)), r"the training data is empty: Task\.train_data\(\) has no samples"),
        (Data(samples(7)), "batch.global_size is 12, but the training data has only 7 samples; write at most 7"),
        (Data(iter([1, 2])), r"Task\.train_data\(\) is not usable: list_iterator is not a map-style dataset"),
        (Data({1, 2}), "set is not a map-style dataset: it needs __len__ and __getitem__"),
        (Data(samples(12), samples(0)), "the evaluation data is empty"),
        (Data(samples(12), 5), r"Task\.eval_data\(\) is not usable: int"),
    ],
)
def test_data_that_cannot_be_used(task: Data, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        settle(task, spec(), world())


def test_data_of_just_one_batch() -> None:
    found = settle(Data(samples(12), samples(1)), spec("duration=3 epochs"), world())
    assert (found.samples, found.steps_per_epoch) == (12, 1)
    assert found.total_steps(spec("duration=3 epochs"), Position()) == 3


def test_held_out_data_is_not_even_made_when_nothing_is_evaluated() -> None:
    assert settle(Data(samples(12), samples(0)), spec("evaluate.every=never"), world()).eval_data is None


@pytest.mark.parametrize(("last", "steps"), [("keep", 3), ("drop", 2)])
def test_steps_of_an_epoch(last: str, steps: int) -> None:
    assert settle(Data(samples(30)), spec(f"data.last_batch={last}"), world()).steps_per_epoch == steps


@pytest.mark.parametrize(
    ("overrides", "size"),
    [((), 12), (("batch.micro_size=4",), 4), (("evaluate.batch_size=7",), 7), (("batch.global_size=100",), 64)],
)
def test_evaluation_batches(overrides: tuple[str, ...], size: int) -> None:
    assert settle(Data(samples(200)), spec(*overrides), world()).eval_batch_size == size


def test_a_share_of_the_batch_per_rank() -> None:
    found = settle(Data(samples(60)), spec(), world(5))
    assert (found.plan.rank_size, found.plan.micro_size, found.plan.accumulation) == (3, 3, 1)
    assert settle(Data(samples(60)), spec(), world(1), world_size=2).plan.rank_size == 6


@pytest.mark.parametrize("last", ["keep", "drop"])
@pytest.mark.parametrize("epochs", [1, 2, 3])
def test_the_length_of_a_resumed_run_is_what_its_batches_make(last: Any, epochs: int) -> None:
    """Also when the batch size is changed in mid-epoch, so that the position is no multiple of it."""
    wanted = spec(f"duration={epochs} epochs", f"data.last_batch={last}")
    found = settle(Data(samples(43)), wanted, world())
    for epoch in range(4):
        for offset in range(43):
            start = Position(10, epoch, offset)
            made = 10
            for batch in global_batches(43, 12, last, start):
                if batch.epoch >= epochs:
                    break
                made = batch.step
            assert found.total_steps(wanted, start) == made, start


@pytest.mark.parametrize(("duration", "total"), [("7 steps", 7), ("2 hours", None), ("3e3 tokens", None)])
def test_lengths_that_are_no_epochs(duration: str, total: int | None) -> None:
    wanted = spec(f"duration={duration}")
    assert settle(Data(samples(12)), wanted, world()).total_steps(wanted, Position(3, 1, 0)) == total
