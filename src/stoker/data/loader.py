"""Loaders of micro-batches: torch's DataLoader where processes read, a plain loop where the rank itself does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader, Dataset

from stoker.data.batches import (
    BatchPlan,
    MicroBatch,
    Position,
    evaluation_batches,
    global_batches,
    micro_batches,
)
from stoker.data.fetch import Collate, Fetcher, FetchFailure, length_of, tensor_reader
from stoker.data.order import Order
from stoker.errors import RunError

Loader = Iterable[tuple[MicroBatch, Any]]
"""Pairs of what was asked for and what was read; can be walked through again and again."""


@dataclass(frozen=True)
class Requests:
    """An iterable that starts anew each time: DataLoader asks for one per pass."""

    make: Callable[[], Iterator[MicroBatch]]

    def __iter__(self) -> Iterator[MicroBatch]:
        return self.make()


def training_requests(
    order: Order, plan: BatchPlan, last_batch: Literal["keep", "drop"], start: Position, rank: int
) -> Requests:
    """One rank's micro-batches from `start` on, without end: epochs follow each other without a pause."""

    def make() -> Iterator[MicroBatch]:
        for batch in global_batches(order.length, plan.global_size, last_batch, start):
            yield from micro_batches(batch, plan, order, rank)

    return Requests(make)


def evaluation_requests(length: int, size: int, rank: int, world_size: int) -> Requests:
    """One rank's batches of one evaluation."""
    return Requests(lambda: evaluation_batches(length, size, rank, world_size))


def make_loader(
    dataset: Dataset[Any],
    requests: Iterable[MicroBatch],
    *,
    collate: Collate | None,
    seed: int,
    workers: int,
    prefetch: int,
    pin_memory: bool,
) -> Loader:
    """A loader of (request, batch) pairs.

    Args:
        dataset: Map-style dataset.
        requests: What to read, in order.
        collate: Joins samples into a batch; None is torch's default.
        seed: Seed of the run.
        workers: Processes that read; 0 reads in this one.
        prefetch: Micro-batches that each worker reads ahead.
        pin_memory: Copy batches to page-locked memory, for GPUs.
    """
    fetcher = Fetcher(dataset, collate, seed)
    if workers == 0 and not pin_memory:
        return _OwnReading(fetcher, requests)
    return DataLoader(
        fetcher,
        sampler=requests,
        batch_size=None,
        collate_fn=_as_is,
        num_workers=workers,
        prefetch_factor=prefetch if workers else None,
        persistent_workers=workers > 0,
        pin_memory=pin_memory,
        generator=torch.Generator().manual_seed(seed),  # its own: the default one belongs to the model
    )


@dataclass(frozen=True)
class _OwnReading:
    """Reads when asked: without processes DataLoader would add only its bookkeeping, a percent of a short step."""

    fetcher: Fetcher
    requests: Iterable[MicroBatch]

    def __iter__(self) -> Iterator[tuple[MicroBatch, Any]]:
        return map(self.fetcher.__getitem__, self.requests)


def _as_is(batch: Any) -> Any:
    return batch


def checked(pair: tuple[MicroBatch, Any], what: str) -> tuple[MicroBatch, Any]:
    """The pair, unless reading failed.

    Raises:
        RunError: A sample could not be read; names it.
    """
    request, batch = pair
    if isinstance(batch, FetchFailure):
        if batch.index is None:
            raise RunError(
                f"the samples {list(request.indices)} of the {what} data cannot be joined into a batch: "
                f"{batch.message}. Give the task a `collate` that makes them alike."
            )
        raise RunError(
            f"sample {batch.index} of the {what} data cannot be read: {batch.message}. "
            "Mend or remove it; the run continues from its last checkpoint."
        )
    return request, batch


def choose_workers(setting: int | Literal["auto"], *, dataset: Dataset[Any], on_cpu: bool, local_ranks: int) -> int:
    """Data workers per rank.

    With `auto`: none where compute and reading would share the same cores or the data lies in memory, else
    this rank's share of the cores this process may use, one left for the rank itself, and 8 at most.
    """
    if setting != "auto":
        return setting
    if on_cpu or tensor_reader(dataset) is not None:
        return 0
    return max(0, min(8, len(os.sched_getaffinity(0)) // max(1, local_ranks) - 1))


__all__ = [
    "Requests",
    "checked",
    "choose_workers",
    "evaluation_requests",
    "length_of",
    "make_loader",
    "training_requests",
]
