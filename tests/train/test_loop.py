"""What ends, interrupts and punctuates a run; in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from stoker import Loss
from stoker.errors import RunError
from stoker.train.checkpoint import CheckpointStore
from stoker.train.checkpoint.store import step_of
from tests.ranks import run_ranks
from tests.runs import rows_of, train_once
from tests.tasks_for_tests import Blobs

SMALL = ("batch.global_size=12", "duration=6 steps")  # an epoch has eight steps


def steps_saved(output: Path) -> list[int]:
    return sorted(step_of(folder) for folder in CheckpointStore(output / "checkpoints").complete())


@pytest.mark.parametrize(
    ("every", "saved"), [("2 steps", [6, 8, 10]), ("1 epochs", [8, 10]), ("7 steps", [7, 10]), ("20 steps", [10])]
)
@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_when_checkpoints_come(every: str, saved: list[int], asynchronous: str, tmp_path: Path) -> None:
    """The newest three, and one at the end."""
    overrides = ("duration=10 steps", f"checkpoint.every={every}", f"checkpoint.asynchronous={asynchronous}")
    train_once(Blobs(), tmp_path, *SMALL, *overrides)
    assert steps_saved(tmp_path) == saved


def test_one_checkpoint_is_kept_where_one_is_asked_for(tmp_path: Path) -> None:
    train_once(Blobs(), tmp_path, *SMALL, "checkpoint.every=1 steps", "checkpoint.keep=1")
    assert steps_saved(tmp_path) == [6]


class Failing(Blobs):
    """Raises in its third step."""

    def __init__(self, error: BaseException | None = None, value: float | None = None) -> None:
        super().__init__()
        self.error, self.value, self.calls = error, value, 0

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        self.calls += 1
        if self.calls == 3 and self.error is not None:
            raise self.error
        found = super().loss(model, batch)
        return Loss(found.total * self.value, found.weight) if self.calls == 3 and self.value else found


@pytest.mark.parametrize(("micro", "remedy"), [("auto", "a number below a rank's share"), ("6", "3"), ("1", "1")])
def test_out_of_memory_says_what_to_lower(micro: str, remedy: str, tmp_path: Path) -> None:
    error = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")
    with pytest.raises(RunError) as caught:
        train_once(Failing(error), tmp_path, *SMALL, f"batch.micro_size={micro}")
    said = str(caught.value)
    assert f"rank 0 ran out of memory on cpu: set batch.micro_size to {remedy}" in said
    assert said.endswith("torch says: CUDA out of memory. Tried to allocate 2 GiB.")


@pytest.mark.parametrize(("value", "name"), [(float("inf"), "inf"), (float("nan"), "nan"), (-float("inf"), "-inf")])
def test_weights_are_those_before_the_step_that_failed(value: float, name: str, tmp_path: Path) -> None:
    task = Failing(value=value)
    with pytest.raises(RunError, match=rf"the loss of step 3 is {name} \(rank 0: samples \[.*\] give {name}\)"):
        train_once(task, tmp_path, *SMALL, "checkpoint.every=1 steps")
    assert steps_saved(tmp_path) == [1, 2]
    assert [row["step"] for row in rows_of(tmp_path / "metrics.jsonl")] == [1, 2]
    resumed = train_once(Blobs(), tmp_path, *SMALL)
    whole = train_once(Blobs(), tmp_path / "whole", *SMALL)
    assert torch.equal(resumed.losses, whole.losses)


class Torn(Dataset[Any]):
    def __init__(self, *, ragged: bool = False) -> None:
        self.ragged = ragged

    def __len__(self) -> int:
        return 96

    def __getitem__(self, index: int) -> Any:
        if index == 30 and not self.ragged:
            raise ValueError("bad header")
        return torch.zeros(7 if index == 30 else 6), torch.tensor(0)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_cannot_be_read(workers: int, tmp_path: Path) -> None:
    class Task(Blobs):
        def train_data(self) -> Any:
            return Torn()

    with pytest.raises(RunError, match="sample 30 of the training data cannot be read: ValueError: bad header"):
        train_once(Task(), tmp_path, *SMALL, "data.shuffle=false", f"data.workers={workers}")
    assert steps_saved(tmp_path) == []


def test_samples_that_cannot_be_joined(tmp_path: Path) -> None:
    class Task(Blobs):
        def train_data(self) -> Any:
            return Torn(ragged=True)

    with pytest.raises(RunError, match=r"the samples \[24, .*\] of the training data cannot be joined into a batch"):
        train_once(Task(), tmp_path, *SMALL, "data.shuffle=false")


def test_clipping(tmp_path: Path) -> None:
    free = train_once(Blobs(), tmp_path / "free", *SMALL, "gradient.clip_norm=1e6", "optimizer.name=sgd")
    assert all(row["grad_norm"] > 0.1 for row in free.rows)
    plain = train_once(Blobs(), tmp_path / "plain", *SMALL, "optimizer.name=sgd")
    assert "grad_norm" not in plain.rows[0]
    assert torch.equal(plain.losses, free.losses), "a norm below the limit changes nothing"
    tight = ("gradient.clip_norm=0.01", "optimizer.name=sgd", "optimizer.lr=1.0", "duration=1 steps")
    torch.manual_seed(0)
    start = Blobs().build_model().state_dict()
    clipped = train_once(Blobs(), tmp_path / "tight", *SMALL, *tight)
    moved = torch.cat([(clipped.weights[name] - value).flatten() for name, value in start.items()])
    assert float(moved.norm()) == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp64", "fp32"])
def test_every_precision_of_the_cpu_learns(precision: str, tmp_path: Path) -> None:
    overrides = ("batch.global_size=12", "duration=40 steps", f"precision={precision}", "optimizer.lr=0.02")
    found = train_once(Blobs(), tmp_path, *overrides)
    assert found.losses[-8:].mean() < 0.6 * found.losses[:4].mean()
    assert all(
        value.dtype == (torch.float64 if precision == "fp64" else torch.float32) for value in found.weights.values()
    )


def test_the_learning_rate_of_each_step_is_the_schedule_s(tmp_path: Path) -> None:
    overrides = ("schedule.name=linear", "schedule.warmup=1 steps", "optimizer.lr=0.5", "optimizer.name=sgd")
    found = train_once(Blobs(), tmp_path, *SMALL, *overrides)
    assert [row["lr"] for row in found.rows] == pytest.approx([0.25, 0.5, 0.4, 0.3, 0.2, 0.1])


def test_micro_batches_change_nothing(tmp_path: Path) -> None:
    runs = [
        train_once(Blobs(), tmp_path / size, *SMALL, "precision=fp64", f"batch.micro_size={size}")
        for size in ("auto", "5", "1")
    ]
    for other in runs[1:]:
        torch.testing.assert_close(other.losses, runs[0].losses, rtol=1e-12, atol=0)


def test_a_run_that_diverges_late_keeps_every_checkpoint_before(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"lower optimizer\.lr"):
        train_once(Blobs(), tmp_path, "batch.global_size=12", "duration=300 steps", "optimizer.name=sgd",
                   "optimizer.lr=1e20", "checkpoint.every=1 steps")  # fmt: skip
    found = rows_of(tmp_path / "metrics.jsonl")
    assert steps_saved(tmp_path)[-1] <= found[-1]["step"]
    assert all(row["loss"] == row["loss"] for row in found)


class BrokenGradient(Blobs):
    """In the third step the loss is a number, but its gradient is none: the square root of zero."""

    def __init__(self, on_rank: int = 0) -> None:
        super().__init__()
        self.on_rank, self.calls = on_rank, 0

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        self.calls += 1
        found = super().loss(model, batch)
        if self.calls != 3 or int(os.environ.get("RANK", "0")) != self.on_rank:
            return found
        return Loss(found.total + (found.total * 0).sqrt(), found.weight)


@pytest.mark.parametrize("every", ["1 steps", "3 steps"])
def test_weights_that_are_no_numbers_are_not_saved(every: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"after step 3 the weights are no numbers any more \(the first: 0\.weight\)"):
        train_once(BrokenGradient(), tmp_path, *SMALL, f"checkpoint.every={every}")
    assert steps_saved(tmp_path) == ([1, 2] if every == "1 steps" else [])
    assert train_once(Blobs(), tmp_path, *SMALL).state == "finished", "the run continues from a sound checkpoint"


def test_nor_exported(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="after step 3 the weights are no numbers"):
        train_once(
            BrokenGradient(), tmp_path, *SMALL, "duration=3 steps", "checkpoint.every=never", "evaluate.every=never"
        )
    assert not (tmp_path / "model").exists()


def _break(output: Path) -> None:
    train_once(BrokenGradient(on_rank=1), output, *SMALL, "checkpoint.every=3 steps")


def test_nor_by_any_rank(tmp_path: Path) -> None:
    errors = run_ranks(_break, 2, tmp_path)
    assert all("after step 3 the weights are no numbers" in str(error) for error in errors), errors
    assert steps_saved(tmp_path) == []
