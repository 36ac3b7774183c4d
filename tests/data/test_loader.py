from __future__ import annotations

import random
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset, default_collate

from stoker.data.batches import BatchPlan, Position
from stoker.data.loader import checked, choose_workers, length_of, make_loader, training_requests
from stoker.data.order import Order
from stoker.errors import RunError

START = Position()


class Augmented(Dataset[torch.Tensor]):
    """Draws from all three generators for each sample."""

    def __len__(self) -> int:
        return 30

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index, torch.rand(()).item(), random.random(), np.random.rand()], dtype=torch.float64)


class Broken(Dataset[torch.Tensor]):
    """One sample cannot be read, or is longer than the others."""

    def __init__(self, unreadable: int = -1, longer: int = -1) -> None:
        self.unreadable, self.longer = unreadable, longer

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.unreadable:
            raise OSError("cannot identify image file 'cat.jpg'")
        return torch.zeros(2 if index == self.longer else 1)


def read(
    dataset: Dataset[Any],
    steps: int,
    *,
    workers: int = 0,
    world_size: int = 1,
    micro: int = 4,
    start: Position = START,
    what: str = "training",
) -> list[Any]:
    """All ranks' batches of some steps, in order of ranks."""
    plan = BatchPlan.make(12, micro, world_size)
    order = Order(length_of(dataset), seed=1)
    batches: list[Any] = []
    for rank in range(world_size):
        requests = training_requests(order, plan, "keep", start, rank)
        loader = make_loader(dataset, requests, collate=None, seed=1, workers=workers, prefetch=2, pin_memory=False)
        pairs = (checked(pair, what) for pair in loader)
        batches += [batch for request, batch in islice(pairs, steps * plan.accumulation)]
    return batches


def rows(batches: list[torch.Tensor]) -> list[tuple[float, ...]]:
    return sorted(tuple(row) for batch in batches for row in batch.tolist())


def test_augmentation_depends_on_the_sample_alone() -> None:
    reference = rows(read(Augmented(), 2))
    assert len({row[1] for row in reference}) == 24, "each sample has its own numbers"
    assert rows(read(Augmented(), 2, workers=2)) == reference
    assert rows(read(Augmented(), 2, world_size=3, micro=2)) == reference


def test_augmentation_differs_between_epochs() -> None:
    first, second = (
        {row[0]: row[1] for row in rows(read(Augmented(), 2, start=start))} for start in (Position(), Position(3, 1, 0))
    )
    both = first.keys() & second.keys()
    assert len(both) > 10
    assert all(first[index] != second[index] for index in both)


def test_the_model_s_generators_are_left_alone() -> None:
    torch.manual_seed(4), random.seed(4), np.random.seed(4)
    untouched = torch.rand(()).item(), random.random(), np.random.rand()
    torch.manual_seed(4), random.seed(4), np.random.seed(4)
    read(Augmented(), 2)
    assert (torch.rand(()).item(), random.random(), np.random.rand()) == untouched


def test_tensors_are_read_as_torch_collates_them() -> None:
    data = TensorDataset(torch.randn(30, 3), torch.arange(30))
    for dataset in (data, Subset(data, list(range(29, -1, -1)))):
        fast = read(dataset, 2)
        order = Order(30, seed=1).indices(0, 0, 24).tolist()
        slow = [default_collate([dataset[index] for index in order[first : first + 4]]) for first in range(0, 24, 4)]
        assert len(fast) == len(slow) == 6
        for ours, theirs in zip(fast, slow, strict=True):
            assert all(torch.equal(one, two) for one, two in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_unreadable_sample_is_named(workers: int) -> None:
    with pytest.raises(RunError, match=r"sample 17 of the training data cannot be read: OSError: .*cat\.jpg"):
        read(Broken(unreadable=17), 2, workers=workers)


def test_samples_that_do_not_fit_together() -> None:
    with pytest.raises(RunError, match="cannot be joined into a batch"):
        read(Broken(longer=3), 2)


def test_workers_are_chosen() -> None:
    data = TensorDataset(torch.zeros(4))
    assert choose_workers(3, dataset=data, on_cpu=True, local_ranks=1) == 3
    assert choose_workers("auto", dataset=Augmented(), on_cpu=True, local_ranks=1) == 0
    assert choose_workers("auto", dataset=ConcatDataset([data]), on_cpu=False, local_ranks=100) == 0
    assert choose_workers("auto", dataset=data, on_cpu=False, local_ranks=1) == 0


def test_what_is_no_map_style_dataset() -> None:
    with pytest.raises(TypeError, match="generator is not a map-style dataset"):
        length_of(number for number in range(3))
    assert length_of(DataLoader(TensorDataset(torch.zeros(4))).dataset) == 4
