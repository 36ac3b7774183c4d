"""The order of samples: a function of (seed, epoch, position) and of nothing else.

A permutation of n samples is never stored. It is computed position by position with a Feistel network over
the next even power of two and cycle walking (Black and Rogaway, "Ciphers with arbitrary finite domains",
2002), so any position of any epoch costs O(1) time and memory: a resumed run seeks, it does not replay.
The round function is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
_Words = NDArray[np.uint64]

BLOCK = 4096
"""Positions computed together."""

_MASK = (1 << 64) - 1

ROUNDS = 6
"""Feistel rounds; four already give a strong pseudo-random permutation (Luby and Rackoff, 1988)."""


@dataclass(frozen=True)
class Order:
    """The order in which `length` samples are visited in each epoch.

    >>> order = Order(length=10, seed=7)
    >>> sorted(order.indices(epoch=0, start=0, stop=10).tolist()) == list(range(10))
    True
    """

    length: int
    seed: int = 0
    shuffle: bool = True

    def indices(self, epoch: int, start: int, stop: int) -> Indices:
        """Dataset indices at positions `start` to `stop` (exclusive) of an epoch; shape (stop - start,)."""
        first, last = start // BLOCK, max(start, stop - 1) // BLOCK
        blocks = [_block(self, epoch, number) for number in range(first, last + 1)]
        found = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
        return found[start - first * BLOCK : stop - first * BLOCK]


@lru_cache(maxsize=4)
def _block(order: Order, epoch: int, number: int) -> Indices:
    """Indices at one block of positions; vectors of this length cost a tenth per sample of short ones."""
    positions = np.arange(number * BLOCK, min((number + 1) * BLOCK, order.length), dtype=np.uint64)
    if not order.shuffle or order.length < 2:
        return positions.astype(np.int64)
    keys = _round_keys(order.seed, epoch)
    half = max(1, ((order.length - 1).bit_length() + 1) // 2)
    found = _feistel(positions, keys, half)
    outside = np.flatnonzero(found >= order.length)
    while outside.size:  # walk the cycle until it comes back into range: fewer than 4 turns on average
        found[outside] = _feistel(found[outside], keys, half)
        outside = outside[found[outside] >= order.length]
    return found.astype(np.int64)


def sample_seed(seed: int, epoch: int, index: int) -> int:
    """Seed for the random augmentation of one sample in one epoch: the same on any rank and worker."""
    mixed = 0
    for word in (seed, epoch + 1, index + 1):
        mixed = _mix_one(mixed ^ _mix_one(word))
    return mixed


def _feistel(values: _Words, keys: _Words, half: int) -> _Words:
    """A permutation of the integers below 2 ** (2 * half)."""
    shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
    left, right = values >> shift, values & mask
    for key in keys:
        left, right = right, left ^ (_mix(right + key) & mask)
    return (left << shift) | right


def _round_keys(seed: int, epoch: int) -> _Words:
    base = sample_seed(seed, epoch, 0)
    return np.array([_mix_one(base + turn) for turn in range(ROUNDS)], dtype=np.uint64)


def _mix(words: _Words) -> _Words:
    """The finaliser of SplitMix64, elementwise."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _mix_one(word: int) -> int:
    """SplitMix64's step for one integer, which numpy would do ten times slower."""
    word = (word + 0x9E3779B97F4A7C15) & _MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & _MASK
    return word ^ (word >> 31)
