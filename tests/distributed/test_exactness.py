"""The loss curve and the weights do not depend on ranks, micro-batches or accumulation."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
import torch

from tests.ranks import free_port, run_ranks
from tests.runs import Outcome, train_once
from tests.tasks_for_tests import Tokens

# 67 samples in batches of 16: each fifth step has three samples only, fewer than there are ranks.
SECTIONS = {
    "batch": {"global_size": 16},
    "optimizer": {"lr": 1e-2, "weight_decay": 0.05},
    "schedule": {"name": "cosine", "warmup": "2 steps"},
    "gradient": {"clip_norm": 1.0},
    "evaluate": {"every": "never"},
    "checkpoint": {"every": "never"},
}
MICRO_SIZES = ("auto", 1, 2, 3, 4, 16)
TOLERANCE = {"fp64": 1e-6, "fp32": 1e-4}


def _all_micro_sizes(folder: Path, precision: str, ports: list[int]) -> list[Outcome]:
    outcomes = []
    for micro_size, port in zip(MICRO_SIZES, ports, strict=True):
        os.environ["MASTER_PORT"] = str(port)
        output = folder / f"{micro_size}"
        outcomes.append(
            train_once(Tokens(), output, f"batch.micro_size={micro_size}", f"precision={precision}", **SECTIONS)
        )
    return outcomes


@cache
def _reference(precision: str, folder: Path) -> Outcome:
    return train_once(Tokens(), folder / f"reference-{precision}", f"precision={precision}", **SECTIONS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("exactness")


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_result_is_that_of_one_big_batch(world_size: int, precision: str, folder: Path) -> None:
    reference = _reference(precision, folder)
    assert len(reference.rows) == 20
    assert reference.losses[-1] < reference.losses[0], "a model that learns nothing proves nothing"
    ports = [free_port() for _ in MICRO_SIZES]
    by_rank = run_ranks(_all_micro_sizes, world_size, folder / f"{precision}-{world_size}", precision, ports)
    for outcomes in by_rank:
        assert not isinstance(outcomes, BaseException), outcomes
        for outcome in outcomes:
            _assert_same(outcome, reference, TOLERANCE[precision])


def _assert_same(outcome: Outcome, reference: Outcome, tolerance: float) -> None:
    assert [row["samples"] for row in outcome.rows] == [row["samples"] for row in reference.rows]
    assert [row["weight"] for row in outcome.rows] == [row["weight"] for row in reference.rows]
    torch.testing.assert_close(outcome.losses, reference.losses, rtol=tolerance, atol=0)
    for name, weight in reference.weights.items():
        difference = (outcome.weights[name] - weight).norm() / weight.norm()
        assert difference <= tolerance, f"{name} differs by {difference:.2e}"


def test_the_check_can_fail(folder: Path) -> None:
    """Another learning rate is another result: the tolerance is not so wide that everything passes."""
    other = train_once(Tokens(), folder / "other", "precision=fp64", "optimizer.lr=1.001e-2",
                       **{name: value for name, value in SECTIONS.items() if name != "optimizer"})  # fmt: skip
    with pytest.raises(AssertionError):
        _assert_same(other, _reference("fp64", folder), TOLERANCE["fp64"])
