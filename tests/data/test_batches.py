from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.data.batches import (
    BatchPlan,
    GlobalBatch,
    Position,
    evaluation_batches,
    global_batches,
    micro_batches,
    steps_per_epoch,
)
from stoker.data.order import Order


@given(
    samples=st.integers(1, 200),
    global_size=st.integers(1, 40),
    micro_size=st.one_of(st.just("auto"), st.integers(1, 40)),
    world_size=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_ranks_share_each_step_without_loss_or_repetition(
    samples: int, global_size: int, micro_size: int, world_size: int
) -> None:
    plan = BatchPlan.make(global_size, micro_size, world_size)
    order = Order(samples, seed=3)
    steps = steps_per_epoch(samples, global_size, "keep")
    seen: list[int] = []
    for batch in islice(global_batches(samples, global_size, "keep", Position()), steps):
        shares = [list(micro_batches(batch, plan, order, rank)) for rank in range(world_size)]
        for share in shares:
            assert [micro.last for micro in share] == [False] * (len(share) - 1) + [True]
            assert len(share) <= plan.accumulation
            assert all(1 <= len(micro.indices) <= plan.micro_size for micro in share)
        real = [index for share in shares for micro in share if not micro.ghost for index in micro.indices]
        sizes = [sum(len(micro.indices) for micro in share if not micro.ghost) for share in shares]
        assert max(sizes) - min(sizes) <= 1
        assert real == order.indices(batch.epoch, batch.start, batch.stop).tolist()
        seen += real
    assert batch.ends_epoch
    assert sorted(seen) == list(range(samples))


def test_a_rank_without_samples_gets_a_ghost() -> None:
    batch = GlobalBatch(step=1, epoch=0, start=0, stop=2, ends_epoch=True)
    shares = [list(micro_batches(batch, BatchPlan(8, 2, 4), Order(2), rank)) for rank in range(4)]
    assert [[micro.ghost for micro in share] for share in shares] == [[True], [False], [True], [False]]


@given(start=st.integers(0, 120))
@settings(max_examples=40, deadline=None)
def test_a_run_continues_where_it_stopped(start: int) -> None:
    whole = list(islice(global_batches(67, 16, "keep", Position()), 150))
    position = Position() if start == 0 else whole[start - 1].after
    assert list(islice(global_batches(67, 16, "keep", position), 30)) == whole[start : start + 30]


def test_another_batch_size_in_the_middle_of_an_epoch() -> None:
    first = next(global_batches(100, 32, "keep", Position(step=3, epoch=0, offset=90)))
    assert (first.start, first.stop, first.ends_epoch) == (90, 100, True)
    skipped = next(global_batches(100, 32, "drop", Position(step=3, epoch=0, offset=96)))
    assert (skipped.epoch, skipped.start) == (1, 0)


def test_dropping_the_last_batch() -> None:
    batches = list(islice(global_batches(70, 32, "drop", Position()), 4))
    assert [(batch.epoch, batch.size) for batch in batches] == [(0, 32), (0, 32), (1, 32), (1, 32)]
    assert steps_per_epoch(70, 32, "drop") == 2
    assert steps_per_epoch(70, 32, "keep") == 3


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((256, 32, 2), "global batch 256 = 2 ranks x 4 micro-batches of 32"),
        ((64, "auto", 1), "global batch 64 = 1 rank x 1 micro-batch of 64"),
        ((64, "auto", 3), "global batch 64 = 3 ranks x 1 micro-batch of at most 22"),
        ((8, 100, 2), "global batch 8 = 2 ranks x 1 micro-batch of 4"),
    ],
)
def test_the_arithmetic_is_said(arguments: tuple[int, int, int], text: str) -> None:
    assert str(BatchPlan.make(*arguments)) == text


@given(length=st.integers(1, 60), size=st.integers(1, 20), world_size=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_evaluation_deals_out_the_same_batches(length: int, size: int, world_size: int) -> None:
    alone = [micro.indices for micro in evaluation_batches(length, size, 0, 1)]
    shares = [list(evaluation_batches(length, size, rank, world_size)) for rank in range(world_size)]
    assert all(shares), "every rank takes part"
    dealt = [micro.indices for share in shares for micro in share if not micro.ghost]
    assert sorted(dealt) == alone
    assert [index for batch in alone for index in batch] == list(range(length))
