from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from stoker.train.evaluate import EvaluationResult
from stoker.train.observe import Observers, RunFacts, make_observers
from stoker.train.observe.base import StepRecord
from stoker.train.observe.files import FileObserver
from stoker.train.observe.terminal import BarObserver, LineObserver, RecentRates, Remaining
from stoker.train.ranks import Ranks
from stoker.train.spec.model import ObserveSection
from stoker.train.world import World
from tests.runs import rows_of

RESULT = EvaluationResult(samples=10, loss=0.5, metrics={"accuracy": 0.25}, seconds=1.23456789)


def record(step: int, **fields: Any) -> StepRecord:
    values: dict[str, Any] = {
        "epoch": 0, "loss": 1 / step, "samples": 8, "weight": 8.0, "lr": 0.1, "seconds": 0.02,
        "phases": {"data": 0.005}, "extras": {"accuracy": 0.5}, **fields,
    }  # fmt: skip
    return StepRecord(step=step, **values)


def told(kind: type[Any], *arguments: Any, terminal: bool = False) -> tuple[Any, io.StringIO]:
    stream = io.StringIO()
    return kind(Console(file=stream, force_terminal=terminal, soft_wrap=True, width=120), *arguments), stream


def test_rows_of_files(tmp_path: Path) -> None:
    observer = FileObserver(tmp_path)
    observer.start(0, 0.0)
    observer.on_step(record(1), 0.5)
    observer.on_step(record(2, skipped=True), 1.0)
    observer.on_evaluation(2, 0, RESULT)
    observer.on_event("end", 2, message="done")
    assert not (tmp_path / "metrics.jsonl").exists(), "steps are gathered"
    observer.close()
    assert rows_of(tmp_path / "metrics.jsonl") == [
        {"step": 1, "epoch": 0, "loss": 1.0, "samples": 8, "weight": 8.0, "lr": 0.1, "seconds": 0.02, "data": 0.005,
         "accuracy": 0.5},
        {"step": 2, "epoch": 0, "loss": 0.5, "samples": 8, "weight": 8.0, "lr": 0.1, "seconds": 0.02, "data": 0.005,
         "accuracy": 0.5, "skipped": True},
    ]  # fmt: skip
    assert rows_of(tmp_path / "evaluations.jsonl") == [
        {"step": 2, "epoch": 0, "samples": 10, "loss": 0.5, "accuracy": 0.25, "seconds": 1.234568}
    ]
    (event,) = rows_of(tmp_path / "events.jsonl")
    assert (event["event"], event["step"], event["message"]) == ("end", 2, "done")


def test_rows_after_the_checkpoint_are_dropped(tmp_path: Path) -> None:
    first = FileObserver(tmp_path)
    for step in range(1, 6):
        first.on_step(record(step), 0.1)
        first.on_evaluation(step, 0, RESULT)
    first.close()
    again = FileObserver(tmp_path)
    again.start(3, 0.3)
    again.on_step(record(4), 0.4)
    again.close()
    assert [row["step"] for row in rows_of(tmp_path / "metrics.jsonl")] == [1, 2, 3, 4]
    assert [row["step"] for row in rows_of(tmp_path / "evaluations.jsonl")] == [1, 2, 3]


def test_rates() -> None:
    rates = RecentRates()
    for step in range(1, 200):  # the first ones are out of the window
        rates.add(record(step, seconds=10.0 if step < 100 else 0.02))
    assert rates.text() == "400 samples/s, waiting for data 25 %"
    slow = RecentRates()
    slow.add(record(1, seconds=16.0, phases={}))
    assert slow.text() == "0.5 samples/s, waiting for data 0 %"


def test_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    remaining = Remaining()
    remaining.start(0.5)  # a resumed run
    assert remaining.text(0.5) == "? left"
    now[0] += 100
    assert remaining.text(0.6) == "0:06:40 left"
    assert remaining.text(1.0) == "0:00:00 left"


def test_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [50.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    observer, stream = told(LineObserver, 10.0)
    observer.start(0, 0.0)
    for step in range(1, 31):
        now[0] += 1
        observer.on_step(record(step), step / 40)
    lines = stream.getvalue().splitlines()
    assert [line.split(",")[0] for line in lines] == ["step 10", "step 20", "step 30"]
    assert lines[-1] == "step 30, 75 %: loss 0.0333, 400 samples/s, waiting for data 25 %, 0:00:10 left"


def test_an_evaluation_and_words_as_they_stand() -> None:
    observer, stream = told(LineObserver, 10.0)
    observer.on_evaluation(9, 1, RESULT)
    observer.say("[bold]sample [1, 2][/bold]")
    assert stream.getvalue().splitlines() == [
        "evaluated after step 9 (epoch 2): loss 0.5000, accuracy 0.2500", "[bold]sample [1, 2][/bold]"
    ]  # fmt: skip


def test_the_bar() -> None:
    observer, stream = told(BarObserver, terminal=True)
    observer.start(3, 0.25)
    observer.on_step(record(4), 0.5)
    observer.close()
    said = stream.getvalue()
    assert "step 4" in said
    assert "50 %" in said
    assert said.endswith("\n") or "\x1b[?25h" in said, "the cursor is shown again"


def test_a_bar_that_was_never_shown_can_be_closed() -> None:
    observer, stream = told(BarObserver, terminal=True)
    observer.close()
    assert "step" not in stream.getvalue()


FACTS = RunFacts("mine", 1, "single", "fp32", micro_batch_size=None, total_steps=None, checkpoints=False)


def kinds(observers: Observers) -> list[str]:
    return [type(one).__name__ for one in observers._observers]  # pyright: ignore[reportPrivateUsage]


def test_which_observers_there_are(tmp_path: Path) -> None:
    first, second = (World(Ranks(rank=rank, world_size=2), torch.device("cpu")) for rank in (0, 1))
    for progress, kind in (
        ("auto", ["LineObserver"]),
        ("bar", ["BarObserver"]),
        ("lines", ["LineObserver"]),
        ("none", []),
    ):
        section = ObserveSection.model_validate({"progress": progress, "tensorboard": False})
        assert kinds(make_observers(section, tmp_path, first, FACTS)) == ["FileObserver", "StatusObserver", *kind]
    assert kinds(make_observers(ObserveSection(), tmp_path, first, FACTS))[2] == "TensorBoardObserver"
    assert kinds(make_observers(ObserveSection(), tmp_path, second, FACTS)) == []


def test_tensorboard_files_can_be_read(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    world = World(Ranks(), torch.device("cpu"))
    observers = make_observers(ObserveSection(progress="none"), tmp_path, world, FACTS)
    observers.start(0, 0.0)
    observers.on_step(record(1), 0.5)
    observers.on_step(record(2), 0.6)  # less than a second later
    observers.on_evaluation(2, 0, RESULT)
    observers.flush()
    observers.close()
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    scalars = {name: [(event.step, event.value) for event in found.Scalars(name)] for name in found.Tags()["scalars"]}
    assert scalars == {
        "train/loss": [(1, 1.0)], "train/lr": [(1, pytest.approx(0.1))], "train/samples_per_second": [(1, 400.0)],
        "train/accuracy": [(1, 0.5)], "eval/loss": [(2, 0.5)], "eval/accuracy": [(2, 0.25)],
    }  # fmt: skip
