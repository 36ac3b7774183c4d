"""How an endless sequence of epochs is cut into steps, ranks' shares and micro-batches. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from stoker.data.order import Order


@dataclass(frozen=True)
class Position:
    """Where a run stands in its data.

    Attributes:
        step: Optimizer steps done.
        epoch: Epoch of the next sample, from 0.
        offset: Samples of that epoch already used, over all ranks.
    """

    step: int = 0
    epoch: int = 0
    offset: int = 0


@dataclass(frozen=True)
class GlobalBatch:
    """The samples of one optimizer step over all ranks.

    Attributes:
        step: Number of the step, from 1.
        epoch: Epoch of the samples, from 0.
        start: First position in the epoch.
        stop: Position after the last one.
        ends_epoch: Whether the next step belongs to the next epoch.
    """

    step: int
    epoch: int
    start: int
    stop: int
    ends_epoch: bool

    @property
    def size(self) -> int:
        """Samples over all ranks."""
        return self.stop - self.start

    @property
    def after(self) -> Position:
        """Where the run stands once this step is done."""
        if self.ends_epoch:
            return Position(self.step, self.epoch + 1, 0)
        return Position(self.step, self.epoch, self.stop)


@dataclass(frozen=True)
class MicroBatch:
    """What one rank reads for one forward pass.

    Attributes:
        batch: The step it belongs to.
        indices: Dataset indices.
        last: Whether it is this rank's last one of the step.
        ghost: It stands in for a share without samples: every rank must take part in exchanges, so such a
            rank computes something and counts it with weight zero.
    """

    batch: GlobalBatch
    indices: tuple[int, ...]
    last: bool
    ghost: bool = False


@dataclass(frozen=True)
class BatchPlan:
    """The arithmetic of one step.

    Attributes:
        global_size: Samples per step over all ranks.
        micro_size: Samples per forward pass, at most.
        world_size: Ranks.
    """

    global_size: int
    micro_size: int
    world_size: int

    @classmethod
    def make(cls, global_size: int, micro_size: int | Literal["auto"], world_size: int) -> BatchPlan:
        """Fill in `auto`: a rank's whole share."""
        share = -(-global_size // world_size)
        return cls(global_size, share if micro_size == "auto" else min(micro_size, share), world_size)

    @property
    def rank_size(self) -> int:
        """Samples per step on the rank that has most."""
        return -(-self.global_size // self.world_size)

    @property
    def accumulation(self) -> int:
        """Forward passes per step on the rank that has most."""
        return -(-self.rank_size // self.micro_size)

    def __str__(self) -> str:
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        micro = "1 micro-batch" if self.accumulation == 1 else f"{self.accumulation} micro-batches"
        exact = self.world_size * self.accumulation * self.micro_size == self.global_size
        return f"global batch {self.global_size} = {ranks} x {micro} of {'' if exact else 'at most '}{self.micro_size}"


def steps_per_epoch(length: int, size: int, last_batch: Literal["keep", "drop"]) -> int:
    """Steps that `length` samples make."""
    return length // size if last_batch == "drop" else -(-length // size)


def global_batches(
    length: int, size: int, last_batch: Literal["keep", "drop"], start: Position
) -> Iterator[GlobalBatch]:
    """The steps of a run from `start` on, without end."""
    step, epoch, offset = start.step, start.epoch, start.offset
    while True:
        rest = length - offset
        usable = length - rest % size if last_batch == "drop" else length
        if offset >= usable:  # the batch size was changed in mid-epoch, and less than one batch is left
            epoch, offset = epoch + 1, 0
            continue
        stop = min(offset + size, usable)
        step += 1
        batch = GlobalBatch(step, epoch, offset, stop, ends_epoch=stop == usable)
        yield batch
        after = batch.after
        epoch, offset = after.epoch, after.offset


def micro_batches(batch: GlobalBatch, plan: BatchPlan, order: Order, rank: int) -> Iterator[MicroBatch]:
    """This rank's part of a step: an equal share, give or take one sample, in pieces of the micro size."""
    start = batch.start + batch.size * rank // plan.world_size
    stop = batch.start + batch.size * (rank + 1) // plan.world_size
    if start == stop:
        stand_in = order.indices(batch.epoch, batch.start, batch.start + 1)
        yield MicroBatch(batch, tuple(stand_in.tolist()), last=True, ghost=True)
        return
    indices: list[int] = order.indices(batch.epoch, start, stop).tolist()
    for first in range(0, len(indices), plan.micro_size):
        piece = tuple(indices[first : first + plan.micro_size])
        yield MicroBatch(batch, piece, last=first + plan.micro_size >= len(indices))


def evaluation_batches(length: int, size: int, rank: int, world_size: int) -> Iterator[MicroBatch]:
    """This rank's batches of an evaluation: each sample once over all ranks.

    The batches are the same on any number of ranks and only dealt out in turn, so that each gives the same
    numbers wherever it is computed. A rank that is dealt none gets a ghost of the first one.
    """
    starts = range(0, length, size)
    for number in range(rank, len(starts), world_size) or (0,):
        start, stop = starts[number], min(starts[number] + size, length)
        batch = GlobalBatch(number, 0, start, stop, ends_epoch=stop == length)
        yield MicroBatch(batch, tuple(range(start, stop)), last=True, ghost=rank >= len(starts))
