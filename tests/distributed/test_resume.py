"""A run that was stopped and resumed is, bit for bit, the run that never stopped."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn

from stoker import Evaluation, Loss
from stoker.errors import RunError
from stoker.train.checkpoint import CheckpointStore
from stoker.train.checkpoint.store import problem_of, step_of
from tests.ranks import Ranks, run_ranks, start_ranks
from tests.runs import Outcome, rows_of, train_once
from tests.tasks_for_tests import Blobs

SECTIONS: dict[str, Any] = {
    "deterministic": True,
    "duration": "40 steps",
    "batch": {"global_size": 20},  # of 96 samples: an epoch has five steps, the last of 16 samples
    "optimizer": {"lr": 1e-2},
    "schedule": {"name": "cosine", "warmup": "3 steps"},
    "checkpoint": {"every": "7 steps"},
}
RANDOM = random.Random(20260101)


class Dropped(Blobs):
    """Draws random numbers in the model; reports which samples a step has."""

    def __init__(self) -> None:
        super().__init__(dropout=0.3)

    def evaluate(self, model: nn.Module, batch: list[Tensor]) -> Evaluation:
        found = super().evaluate(model, batch)
        fingerprint = (batch[0].double() * torch.arange(1, 7)).sum()
        return Evaluation(
            Loss(found.loss.total, found.loss.weight, {"samples_seen": fingerprint}), found.outputs, found.targets
        )


class Interrupted(Dropped):
    """Sends its own process a signal in the forward pass of one step, on one rank."""

    def __init__(self, at: int, number: int, rank: int = 0) -> None:
        super().__init__()
        self.at, self.number, self.on_rank, self.calls = at, number, rank, 0

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        self.calls += 1
        if self.calls == self.at and int(os.environ.get("RANK", "0")) == self.on_rank:
            os.kill(os.getpid(), self.number)
        return super().loss(model, batch)


def state_at(folder: Path) -> dict[str, Any]:
    """Everything a checkpoint holds, by name."""
    reader = dcp.FileSystemReader(folder / "state")
    saved = reader.read_metadata().state_dict_metadata
    state: dict[str, Any] = {
        name: torch.empty(entry.size, dtype=entry.properties.dtype) if hasattr(entry, "size") else None
        for name, entry in saved.items()
    }
    dcp.load(state, storage_reader=reader, no_dist=True)
    return state


def assert_bit_equal(output: Path, reference: Path) -> None:
    """Final checkpoints, metrics and evaluations agree in every bit."""
    ours, theirs = (state_at(CheckpointStore(root / "checkpoints").complete()[0]) for root in (output, reference))
    assert ours.keys() == theirs.keys()
    kinds = {name.split(".")[0] for name in ours}
    assert kinds == {"model", "optimizer", "ranks"}
    for name, value in theirs.items():
        equal = torch.equal(ours[name], value) if isinstance(value, Tensor) else ours[name] == value
        assert equal or _both_nan(ours[name], value), name
    timed = {"seconds", "data", "forward", "backward", "optimizer"}
    for file in ("metrics.jsonl", "evaluations.jsonl"):
        stripped = [
            [{key: value for key, value in row.items() if key not in timed} for row in rows_of(root / file)]
            for root in (output, reference)
        ]
        assert stripped[0] == stripped[1], file


def _both_nan(ours: Any, theirs: Any) -> bool:
    return isinstance(theirs, Tensor) and theirs.ndim == 0 and bool(torch.isnan(ours)) and bool(torch.isnan(theirs))


def _train(output: Path, task: Blobs | None = None, *overrides: str, **sections: Any) -> Outcome:
    return train_once(task or Dropped(), output, *overrides, **{**SECTIONS, **sections})


def _on(world_size: int, output: Path, *arguments: Any) -> list[Outcome]:
    outcomes = run_ranks(_train, world_size, output, *arguments)
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException), outcome
    return outcomes


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The run that never stopped, over 1 and 2 ranks."""
    folder = tmp_path_factory.mktemp("references")
    for world_size in (1, 2):
        _on(world_size, folder / str(world_size))
    return {world_size: folder / str(world_size) for world_size in (1, 2)}


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
def test_stopped_by_a_signal(world_size: int, number: int, references: dict[int, Path], tmp_path: Path) -> None:
    at = RANDOM.randrange(2, 38)
    outcomes = _on(world_size, tmp_path / "run", Interrupted(at, number, rank=world_size - 1))
    assert {outcome.state for outcome in outcomes} == {"stopped"}
    newest = CheckpointStore(tmp_path / "run" / "checkpoints").complete()[0]
    assert step_of(newest) == at, "the ranks did not stop together at the end of the step"
    assert {outcome.state for outcome in _on(world_size, tmp_path / "run")} == {"finished"}
    assert_bit_equal(tmp_path / "run", references[world_size])


@pytest.mark.slow
@pytest.mark.parametrize(("world_size", "kills"), [(1, 12), (2, 12)])
def test_killed_at_any_instant(world_size: int, kills: int, references: dict[int, Path], tmp_path: Path) -> None:
    """kill -9 again and again while every step is being saved in the background."""
    output = tmp_path / "run"
    store = CheckpointStore(output / "checkpoints")
    newest = 0
    for _ in range(kills):
        ranks = start_ranks(_train, world_size, output, Slow(), "checkpoint.every=1 steps", "checkpoint.keep=2")
        _wait_for_progress(store, newest, ranks)
        time.sleep(RANDOM.uniform(0, 0.06))
        ranks.kill(RANDOM.randrange(world_size))
        complete = store.complete()
        assert complete, "no checkpoint was left"
        for folder in complete:
            assert problem_of(folder) is None
        assert step_of(complete[0]) >= newest, "a checkpoint was lost"
        newest = step_of(complete[0])
        if newest >= 40:
            break
    _on(world_size, output)
    assert_bit_equal(output, references[world_size])


class Slow(Dropped):
    """Takes its time, so that a kill finds it at work."""

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        time.sleep(0.01)
        return super().loss(model, batch)


def _wait_for_progress(store: CheckpointStore, newest: int, ranks: Ranks, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while ranks.alive and not any(step_of(folder) > newest for folder in store.complete()):
        assert time.monotonic() < deadline, "the run made no progress"
        time.sleep(0.001)


def test_with_another_number_of_ranks(references: dict[int, Path], tmp_path: Path) -> None:
    """The same samples in the same steps, and the loss to 1e-5 (without dropout, which differs by rank)."""
    _on(1, tmp_path / "one", Blobs())
    for before, after in ((1, 2), (2, 1), (2, 3)):
        output = tmp_path / f"{before}-{after}"
        _on(before, output, Quiet(at=13))
        _on(after, output, Blobs())
        ours, whole = (rows_of(root / "metrics.jsonl") for root in (output, tmp_path / "one"))
        assert [(row["step"], row["epoch"], row["samples"]) for row in ours] == [
            (row["step"], row["epoch"], row["samples"]) for row in whole
        ]
        for ours_row, row in zip(ours, whole, strict=True):
            assert ours_row["loss"] == pytest.approx(row["loss"], rel=1e-5)


class Quiet(Blobs):
    """Without dropout; stops itself."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.at, self.calls = at, 0

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        self.calls += 1
        if self.calls == self.at:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().loss(model, batch)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"cannot mount a small file system: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.system
@pytest.mark.parametrize("world_size", [1, 2])
def test_full_disk(world_size: int, references: dict[int, Path], small_disk: Path) -> None:
    output = small_disk / "run"
    _on(world_size, output, Interrupted(16, signal.SIGTERM))
    with (small_disk / "ballast").open("wb") as ballast:  # leave 20 kB, less than a checkpoint
        ballast.write(b"0" * max(0, _free(small_disk) - 20_000))
    failed = run_ranks(_train, world_size, output)
    assert all(isinstance(error, RunError) for error in failed), failed
    assert "is full" in str(failed[0])
    store = CheckpointStore(output / "checkpoints")
    assert [problem_of(folder) for folder in store.complete()] == [None] * len(store.complete())
    assert step_of(store.complete()[0]) >= 16
    (small_disk / "ballast").unlink()
    _on(world_size, output)
    assert_bit_equal(output, references[world_size])


def _free(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize
