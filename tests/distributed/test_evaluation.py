"""An evaluation counts each sample once and gives the same numbers over any number of ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAUROC

from tests.ranks import run_ranks
from tests.runs import rows_of, train_once
from tests.tasks_for_tests import Blobs

HELD_OUT = 31  # a multiple of none of 2, 3 and the batch size 4


def _evaluate(output: Path, held_out: int, task: Blobs | None = None) -> None:
    train_once(
        task or Blobs(held_out=held_out),
        output,
        "duration=3 steps",
        "batch.global_size=12",
        "evaluate.every=1 steps",
        "evaluate.batch_size=4",
        "precision=fp64",
    )


def _rows(world_size: int, folder: Path, held_out: int = HELD_OUT) -> list[dict[str, Any]]:
    output = folder / f"{world_size}-{held_out}"
    for result in run_ranks(_evaluate, world_size, output, held_out):
        assert not isinstance(result, BaseException), result
    rows = rows_of(output / "evaluations.jsonl")
    for row in rows:
        del row["seconds"]
    return rows


def test_same_counts_and_metrics_over_any_number_of_ranks(tmp_path: Path) -> None:
    alone = _rows(1, tmp_path)
    assert [row["samples"] for row in alone] == [HELD_OUT] * 3
    right = alone[0]["accuracy"] * HELD_OUT
    assert right == pytest.approx(round(right), abs=1e-5), "accuracy is not a count over all samples"
    for world_size in (2, 3):
        spread = _rows(world_size, tmp_path)
        assert [row["samples"] for row in spread] == [HELD_OUT] * 3
        assert [row["accuracy"] for row in spread] == [row["accuracy"] for row in alone]
        # The weights differ in the last bits, since gradients were added in another order; the first
        # evaluation shows by how much.
        for ours, theirs in zip(spread, alone, strict=True):
            assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-12)


class Ranked(Blobs):
    """With a metric that keeps every sample: its exchange between ranks is of tensors, not of counts."""

    def metrics(self) -> dict[str, Metric]:
        return {"auroc": MulticlassAUROC(3, thresholds=None)}


@pytest.mark.parametrize("held_out", [5, 9, 31])
def test_a_metric_that_keeps_samples(held_out: int, tmp_path: Path) -> None:
    found = []
    for world_size in (1, 2, 3):
        output = tmp_path / str(world_size)
        results = run_ranks(_evaluate, world_size, output, held_out, Ranked(held_out=held_out), timeout=60)
        assert results == [None] * world_size
        found.append([row["auroc"] for row in rows_of(output / "evaluations.jsonl")])
    assert found[1] == found[2] == found[0]


def test_ranks_without_a_batch(tmp_path: Path) -> None:
    alone, spread = _rows(1, tmp_path, held_out=5), _rows(3, tmp_path, held_out=5)
    assert [row["samples"] for row in spread] == [5] * 3
    assert [row["accuracy"] for row in spread] == [row["accuracy"] for row in alone]
