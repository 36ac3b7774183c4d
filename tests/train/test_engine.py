"""Whole runs in this process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset, TensorDataset

import stoker
from stoker import Loss, Task
from stoker.errors import RunError, UserError
from stoker.train import run
from stoker.train.checkpoint import CheckpointStore
from stoker.train.checkpoint.store import step_of
from stoker.train.engine import _choose_algorithms
from tests.ranks import run_ranks
from tests.runs import QUIET, rows_of, spec_of, train_once
from tests.tasks_for_tests import Blobs, Tokens

SMALL = ("batch.global_size=12", "checkpoint.every=2 steps")


def steps_saved(output: Path) -> list[int]:
    return [step_of(folder) for folder in CheckpointStore(output / "checkpoints").complete()]


def test_a_plain_module_in_a_few_lines(tmp_path: Path) -> None:
    inputs = torch.linspace(-1, 1, 64)[:, None]
    task = stoker.make_task(nn.Linear(1, 1), TensorDataset(inputs, 3 * inputs + 1), F.mse_loss)
    spec = {"duration": "80 epochs", "optimizer": {"lr": 0.1}, "output": str(tmp_path), **QUIET}
    result = stoker.train(task, spec, "batch.global_size=16")  # pyright: ignore[reportCallIssue]
    assert result.state == "finished"
    weight, bias = (float(value.detach()) for value in result.model.parameters())
    assert (weight, bias) == pytest.approx((3, 1), abs=0.01)


def test_the_run_folder_has_what_is_promised(tmp_path: Path) -> None:
    train_once(Blobs(), tmp_path, "duration=2 epochs", *SMALL, "observe.tensorboard=true")
    for name in ("spec.yaml", "environment.json", "metrics.jsonl", "evaluations.jsonl", "events.jsonl", "report.html",
                 "model/model.safetensors"):  # fmt: skip
        assert (tmp_path / name).stat().st_size > 0, name
    rows = rows_of(tmp_path / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, 17))
    assert rows[0].keys() >= {"step", "loss", "samples", "lr", "seconds", "data", "forward", "backward", "optimizer"}
    assert all(row["data"] + row["forward"] + row["backward"] <= row["seconds"] for row in rows)
    assert [row["event"] for row in rows_of(tmp_path / "events.jsonl")][-1] == "end"
    assert list((tmp_path / "tensorboard").iterdir())


@pytest.mark.parametrize(
    ("sample", "where"), [(37, "rank 0: samples [36, 37, 38"), (44, "rank 1: samples [42, 43, 44")]
)
def test_a_loss_that_is_no_number(sample: int, where: str, tmp_path: Path) -> None:
    """Stops with step, rank and samples, before anything of that step is saved."""
    results = run_ranks(_train_poisoned, 2, tmp_path, sample, "data.shuffle=false", "batch.micro_size=3")
    for result in results:
        assert isinstance(result, RunError), result
        assert f"the loss of step 4 is nan ({where}] give nan)" in str(result)
    assert steps_saved(tmp_path)[0] == 2
    assert [row["step"] for row in rows_of(tmp_path / "metrics.jsonl")] == [1, 2, 3]
    assert not (tmp_path / "model").exists()
    assert (tmp_path / "failure.json").exists()


def _train_poisoned(output: Path, sample: int, *overrides: str) -> Any:
    return train_once(Blobs(poison=sample), output, *SMALL, *overrides)


class Weightless(Tokens):
    """Only padding from the third step on."""

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        found = super().loss(model, batch)
        self.calls = getattr(self, "calls", 0) + 1
        return Loss(found.total * 0, 0.0) if self.calls == 3 else found


def test_a_step_without_weight(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="step 3 has no weight"):
        train_once(Weightless(), tmp_path, *SMALL, evaluate={"every": "never"})


class Sized(Dataset[Tensor]):
    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        return torch.zeros(2)


class With(Blobs):
    """Blobs with other data."""

    def __init__(self, train: Any = None, held_out: Any = None) -> None:
        super().__init__()
        self.train, self.other = train, held_out

    def train_data(self) -> Any:
        return super().train_data() if self.train is None else self.train

    def eval_data(self) -> Any:
        return self.other


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (With(train=Sized(0)), "the training data is empty"),
        (With(train=Sized(7)), "batch.global_size is 12, but the training data has only 7 samples; write at most 7"),
        (With(train=(row for row in [1])), "generator is not a map-style dataset"),
        (With(held_out=Sized(0)), "the evaluation data is empty"),
    ],
)
def test_data_that_cannot_be_used(task: Task, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        train_once(task, tmp_path / "run", *SMALL)


def test_resuming_as_asked(tmp_path: Path) -> None:
    train_once(Blobs(), tmp_path, *SMALL, "duration=6 steps")
    with pytest.raises(UserError, match="holds step-00000006; choose another output folder"):
        train_once(Blobs(), tmp_path, *SMALL, "checkpoint.resume=never")
    with pytest.raises(UserError, match="cannot be used: it does not exist"):
        train_once(Blobs(), tmp_path, *SMALL, "checkpoint.resume=/nowhere/step-00000001")
    branch = tmp_path / "branch"
    first = tmp_path / "checkpoints" / "step-00000002"
    train_once(Blobs(), branch, *SMALL, f"checkpoint.resume={first}", "duration=6 steps")
    branched, whole = (rows_of(root / "metrics.jsonl") for root in (branch, tmp_path))
    assert [row["loss"] for row in branched] == [row["loss"] for row in whole[2:]]


def test_a_finished_run_has_nothing_left_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_once(Blobs(), tmp_path, *SMALL, "duration=6 steps")
    before = (tmp_path / "metrics.jsonl").read_text(), (tmp_path / "evaluations.jsonl").read_text()
    train_once(Blobs(), tmp_path, *SMALL, "duration=6 steps", "observe.progress=lines")
    assert "nothing is left to do" in capsys.readouterr().out
    assert ((tmp_path / "metrics.jsonl").read_text(), (tmp_path / "evaluations.jsonl").read_text()) == before
    longer = train_once(Blobs(), tmp_path, *SMALL, "duration=8 steps")
    assert [row["step"] for row in longer.rows] == list(range(1, 9))


def test_a_setting_of_the_optimizer_may_change_on_resume(tmp_path: Path) -> None:
    """The run file wins, also where the number of parameter groups is another."""
    train_once(Blobs(), tmp_path, *SMALL, "duration=4 steps")
    kept, decayed = (
        train_once(
            Blobs(), tmp_path / name, *SMALL, f"checkpoint.resume={tmp_path}/checkpoints/step-00000004",
            "duration=8 steps", f"optimizer.weight_decay={decay}",
        )
        for name, decay in (("kept", 0), ("decayed", 50))
    )  # fmt: skip
    assert decayed.weights["0.weight"].norm() < 0.9 * kept.weights["0.weight"].norm()


def test_a_damaged_newest_checkpoint_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = train_once(Blobs(), tmp_path / "whole", *SMALL, "duration=8 steps")
    train_once(Blobs(), tmp_path / "run", *SMALL, "duration=6 steps")
    next((tmp_path / "run/checkpoints/step-00000006/state").glob("*.distcp")).write_bytes(b"torn")
    again = train_once(Blobs(), tmp_path / "run", *SMALL, "duration=8 steps", "observe.progress=lines")
    said = capsys.readouterr().out
    assert "passing over a damaged checkpoint" in said
    assert "step-00000004" in said
    assert torch.equal(again.losses, whole.losses)


class Wider(Blobs):
    def build_model(self) -> nn.Module:
        return nn.Sequential(nn.Linear(6, 25), nn.GELU(), nn.Dropout(0), nn.Linear(25, 3))


def test_a_checkpoint_of_another_model(tmp_path: Path) -> None:
    train_once(Blobs(), tmp_path, *SMALL, "duration=2 steps")
    with pytest.raises(RunError, match=r"another model or optimizer: model\.0\.weight has shape \[24, 6\] there"):
        train_once(Wider(), tmp_path, *SMALL)
    assert steps_saved(tmp_path) == [2], "nothing is lost"


class Paced(Blobs):
    """Makes steps of an eighth of a second, on a simulated clock: a busy machine changes nothing."""

    now = 0.0

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        if model.training:
            self.now += 0.125
        return super().loss(model, batch)


@pytest.fixture
def paced(monkeypatch: pytest.MonkeyPatch) -> Paced:
    task = Paced()
    monkeypatch.setattr("stoker.train.loop.time", SimpleNamespace(perf_counter=lambda: task.now))
    return task


def test_durations_in_time_and_in_tokens(paced: Paced, tmp_path: Path) -> None:
    never = ("checkpoint.every=never", "evaluate.every=never", "schedule.name=linear", "optimizer.lr=1")
    timed = train_once(paced, tmp_path / "time", "batch.global_size=12", "duration=1 seconds", *never)
    assert [row["lr"] for row in timed.rows] == pytest.approx([(8 - step) / 8 for step in range(8)])
    counted = train_once(Tokens(), tmp_path / "tokens", "batch.global_size=16", "duration=400 tokens")
    weights = [row["weight"] for row in counted.rows]
    assert sum(weights[:-1]) < 400 <= sum(weights)


def test_what_steps_took_is_within_what_the_run_took(tmp_path: Path) -> None:
    rows = train_once(Blobs(), tmp_path, "batch.global_size=12", "duration=20 steps").rows
    started, *_, ended = (row["time"] for row in rows_of(tmp_path / "events.jsonl"))
    assert 0 < sum(row["seconds"] for row in rows) < ended - started


def test_without_checkpoints(tmp_path: Path) -> None:
    train_once(Blobs(), tmp_path, "batch.global_size=12", "checkpoint.every=never", "duration=3 steps")
    assert not (tmp_path / "checkpoints").exists()
    assert (tmp_path / "model" / "model.safetensors").exists()


def test_intervals_in_time(paced: Paced, tmp_path: Path) -> None:
    """At the first step at or after each multiple, and at the end."""
    every = ("evaluate.every=0.3 seconds", "checkpoint.every=0.5 seconds", "checkpoint.keep=9")
    found = train_once(paced, tmp_path, "batch.global_size=12", "duration=1.2 seconds", *every)
    assert [row["step"] for row in found.evaluations] == [3, 5, 8, 10]
    assert sorted(steps_saved(tmp_path)) == [4, 8, 10]


class Told(Blobs):
    """Is told to stop in its fifth step."""

    def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 5:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(model, batch)


def test_an_interrupt_saves_and_stops(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    result = run(Told(), spec_of(tmp_path, *SMALL))
    assert (result.state, result.step) == ("stopped", 5)
    assert steps_saved(tmp_path)[0] == 5
    assert signal.getsignal(signal.SIGINT) is before


def test_a_bug_of_the_task_is_written_down(tmp_path: Path) -> None:
    class Buggy(Blobs):
        def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
            raise ZeroDivisionError("my bug")

    with pytest.raises(ZeroDivisionError):
        train_once(Buggy(), tmp_path, *SMALL)
    assert '"kind": "ZeroDivisionError"' in (tmp_path / "failure.json").read_text()
    assert (tmp_path / "report.html").exists()


def test_tied_weights_are_saved_and_resumed(tmp_path: Path) -> None:
    class Tied(Tokens):
        def build_model(self) -> nn.Module:
            model = super().build_model()
            head = nn.Linear(16, model[0].num_embeddings, bias=False)  # pyright: ignore
            head.weight = model[0].weight  # pyright: ignore
            return nn.Sequential(model[0], head)  # pyright: ignore

    whole = train_once(Tied(), tmp_path / "whole", *SMALL, "duration=8 steps")
    train_once(Tied(), tmp_path / "run", *SMALL, "duration=4 steps")
    again = train_once(Tied(), tmp_path / "run", *SMALL, "duration=8 steps")
    assert torch.equal(again.losses, whole.losses)


def test_batch_normalisation_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Normal(Blobs):
        def build_model(self) -> nn.Module:
            return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))

    train_once(Normal(), tmp_path, *SMALL, "batch.micro_size=6", "duration=2 steps", "observe.progress=lines")
    assert "1 batch normalisations (the first: 1) take their statistics over 6 samples" in capsys.readouterr().out


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("before", [(False, False), (True, False), (True, True)])
def test_deterministic_algorithms_are_what_the_run_asks_for(asked: bool, before: tuple[bool, bool]) -> None:
    was = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    try:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        _choose_algorithms(deterministic=asked)
        assert torch.are_deterministic_algorithms_enabled() == asked
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(was[0], warn_only=was[1])
