from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.data.order import BLOCK, Order, sample_seed


@given(length=st.integers(1, 3000), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_each_epoch_is_a_permutation(length: int, seed: int, epoch: int) -> None:
    indices = Order(length, seed).indices(epoch, 0, length)
    assert np.array_equal(np.sort(indices), np.arange(length))


def test_any_position_without_what_comes_before() -> None:
    order = Order(3 * BLOCK + 17, seed=5)
    whole = order.indices(2, 0, order.length)
    for start, stop in ((0, 1), (BLOCK - 3, BLOCK + 3), (5, 2 * BLOCK + 9), (order.length - 4, order.length)):
        assert np.array_equal(order.indices(2, start, stop), whole[start:stop])


def test_epochs_and_seeds_differ() -> None:
    orders = [Order(1000, seed).indices(epoch, 0, 1000) for seed in (0, 1) for epoch in (0, 1)]
    for first in range(4):
        for second in range(first):
            same = int((orders[first] == orders[second]).sum())
            assert same < 12, "two independent permutations agree in about one place"


def test_every_sample_is_equally_likely_at_every_position() -> None:
    """Chi-squared over (position, sample) for 8 samples and 8,000 epochs: 49 degrees of freedom."""
    counts = np.zeros((8, 8))
    epochs = 8000
    for epoch in range(epochs):
        counts[np.arange(8), Order(8, seed=1).indices(epoch, 0, 8)] += 1
    expected = epochs / 8
    statistic = float(((counts - expected) ** 2 / expected).sum())
    assert statistic < 85.4, "chi-squared is beyond its 99.9 % quantile"


def test_neighbours_are_not_kept_together() -> None:
    order = Order(4096, seed=9).indices(0, 0, 4096)
    steps = np.abs(np.diff(order))
    assert np.mean(steps) == pytest.approx(4096 / 3, rel=0.05), "of two random places, the mean distance is a third"


def test_without_shuffling() -> None:
    assert Order(5, shuffle=False).indices(3, 1, 4).tolist() == [1, 2, 3]


def test_sample_seeds_are_distinct_and_stable() -> None:
    seeds = {sample_seed(seed, epoch, index) for seed in range(5) for epoch in range(5) for index in range(100)}
    assert len(seeds) == 2500
    assert all(0 <= seed < 2**64 for seed in seeds)
    assert sample_seed(1, 2, 3) == sample_seed(1, 2, 3) != sample_seed(1, 3, 2)
