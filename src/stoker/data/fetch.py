"""Reading one micro-batch: the only code that runs inside data workers."""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Callable, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, default_collate, get_worker_info

from stoker.data.batches import MicroBatch
from stoker.data.order import sample_seed

if TYPE_CHECKING:
    from collections.abc import Generator

Collate = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class FetchFailure:
    """Why a micro-batch could not be read; travels from a worker in the batch's place.

    Attributes:
        index: Dataset index of the sample; None if joining the samples failed.
        message: Type and text of the exception.
        trace: Its traceback.
    """

    index: int | None
    message: str
    trace: str


class Fetcher(Dataset[tuple[MicroBatch, Any]]):
    """A dataset whose items are whole micro-batches.

    Random augmentation is drawn from generators seeded by (seed, epoch, sample index), so what a sample looks
    like does not depend on which rank or worker reads it, nor on what was read before.

    Args:
        dataset: Map-style dataset.
        collate: Joins samples into a batch; None is torch's default.
        seed: Seed of the run.
    """

    def __init__(self, dataset: Dataset[Any], collate: Collate | None, seed: int) -> None:
        self.dataset = dataset
        self.collate = collate
        self.seed = seed
        self.tensors = tensor_reader(dataset) if collate is None else None
        self.random = not _is_deterministic(dataset)

    def __getitem__(self, request: MicroBatch) -> tuple[MicroBatch, Any]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The request and its batch, or a FetchFailure in the batch's place."""
        if self.tensors is not None:
            return request, self.tensors(torch.tensor(request.indices))
        if not self.random:
            return request, self._read(request)
        with _random_state_kept():
            return request, self._read(request)

    def _read(self, request: MicroBatch) -> Any:
        samples: list[Any] = []
        index: int | None = None
        try:
            for index in request.indices:
                if self.random:
                    _seed_all(sample_seed(self.seed, request.batch.epoch, index))
                samples.append(self.dataset[index])
            index = None
            return (self.collate or default_collate)(samples)
        except Exception as error:
            return FetchFailure(index, f"{type(error).__name__}: {error}", traceback.format_exc())


def tensor_reader(dataset: Dataset[Any]) -> Callable[[torch.Tensor], list[torch.Tensor]] | None:
    """Reads a whole batch with one indexing operation per tensor, where the samples are tensors in memory.

    Equal to torch's default collation of single samples, some ten times faster.
    """
    if isinstance(dataset, Subset):
        inner = tensor_reader(dataset.dataset)
        positions = torch.as_tensor(dataset.indices)
        return None if inner is None else lambda indices: inner(positions[indices])
    if type(dataset) is not TensorDataset:
        return None
    tensors = dataset.tensors
    return lambda indices: [tensor[indices] for tensor in tensors]


def _is_deterministic(dataset: Dataset[Any]) -> bool:
    """Whether reading a sample is known to draw no random numbers."""
    if isinstance(dataset, Subset):
        return _is_deterministic(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        return all(_is_deterministic(part) for part in dataset.datasets)
    return type(dataset) is TensorDataset


@contextmanager
def _random_state_kept() -> Generator[None]:
    """In the main process the model draws from the same generators: leave them as they were."""
    if get_worker_info() is not None:
        yield
        return
    numpy = sys.modules.get("numpy")
    kept = torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        random.setstate(kept[1])
        if numpy:
            numpy.random.set_state(kept[2])


def _seed_all(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # the CPU's alone: torch.manual_seed would touch CUDA in a worker
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed & 0xFFFFFFFF)


def length_of(dataset: Any) -> int:
    """Samples in a map-style dataset.

    Raises:
        TypeError: It has no length or no items.
    """
    if not isinstance(dataset, Sized) or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{type(dataset).__name__} is not a map-style dataset: it needs __len__ and __getitem__")
    return len(dataset)
