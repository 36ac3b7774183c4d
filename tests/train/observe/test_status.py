"""What a run says of itself: status.json and the registry entry."""

from __future__ import annotations

import contextlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from stoker.errors import NotFiniteError, RunError
from stoker.run_status import (
    RunStatus,
    process_identity,
    read_status,
    registries,
    registry_for_writing,
    registry_name,
    write_status,
)
from stoker.train.evaluate import EvaluationResult
from stoker.train.observe import status as module
from stoker.train.observe.base import StepRecord
from stoker.train.observe.status import RunFacts, StatusObserver, cause_of
from tests.runs import train_once
from tests.tasks_for_tests import Blobs

FACTS = RunFacts("mine", 2, "ddp", "bf16", micro_batch_size=4, total_steps=10, checkpoints=True)


def record(step: int, **changes: object) -> StepRecord:
    values = StepRecord(step, 0, 0.5, 8, 8.0, 0.1, 0.25, {"data": 0.05, "forward": 0.1}, {})
    return replace(values, **changes)  # type: ignore[arg-type]


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "registry"
    monkeypatch.setenv("STOKER_RUNS", str(place))
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "run"
    made.mkdir()
    return made


def test_what_is_decided_before_the_first_step_is_said_at_once(folder: Path, registry: Path) -> None:
    observer = StatusObserver(folder, FACTS)
    status = read_status(folder / "status.json")
    observer.close()
    assert (status.state, status.task, status.micro_batch_size, status.total_steps) == ("starting", "mine", 4, 10)
    assert status.pid == os.getpid()
    assert process_identity(os.getpid()) is not None
    assert status.launcher == os.getppid()
    assert status.step is None
    assert status.loss is None
    assert read_status(registry / registry_name(str(folder))) is not None


def test_steps_are_told_as_rates_over_the_last_ones(folder: Path, registry: Path) -> None:
    observer = StatusObserver(folder, FACTS)
    observer.start(0, 0.0)
    for step in range(1, 5):
        observer.on_step(record(step), step / 10)
    observer.on_event("end", 4)
    observer.close()
    status = read_status(folder / "status.json")
    assert (status.state, status.step, status.samples, status.progress_ratio) == ("finished", 4, 32, 0.4)
    assert status.samples_per_second == pytest.approx(32.0)
    assert status.step_seconds == pytest.approx(0.25)
    assert status.data_wait_ratio == pytest.approx(0.2)
    assert status.ended_time == pytest.approx(time.time(), abs=5)
    assert status.mfu_ratio is None  # nobody has said how many FLOPs a step takes


@pytest.mark.parametrize(
    ("plan", "mfu"),
    [
        ({"processes": 2, "speed": {"seconds_at_peak": 0.1}}, 0.4),
        ({"processes": 4, "speed": {"seconds_at_peak": 0.1}}, None),  # of another start
        ({"processes": 2, "speed": {"seconds_at_peak": None}}, None),  # a CPU
        ({"processes": 2, "speed": None}, None),
        ([], None),
    ],
)
def test_the_share_of_the_peak_is_known_from_the_plan_of_the_run(
    plan: object, mfu: float | None, folder: Path, registry: Path
) -> None:
    (folder / "plan.json").write_text(json.dumps(plan))
    observer = StatusObserver(folder, FACTS)
    observer.start(0, 0.0)
    observer.on_step(record(1), 0.1)
    observer.close()
    assert read_status(folder / "status.json").mfu_ratio == (None if mfu is None else pytest.approx(mfu))


def test_it_is_written_while_the_loop_hangs(folder: Path, registry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SPACING", 0.02)
    observer = StatusObserver(folder, FACTS)
    observer.start(0, 0.0)
    observer.on_step(record(1), 0.1)
    first = read_status(folder / "status.json")
    deadline = time.monotonic() + 5
    while (later := read_status(folder / "status.json")).step is None or later.written_clock <= first.written_clock:
        assert time.monotonic() < deadline, "nothing was written beside the loop"
        time.sleep(0.01)
    time.sleep(0.1)
    last = read_status(folder / "status.json")
    observer.close()
    assert last.written_clock > later.written_clock
    assert last.step_clock == later.step_clock


def test_an_evaluation_and_a_checkpoint_are_no_time_without_a_step(folder: Path, registry: Path) -> None:
    observer = StatusObserver(folder, FACTS)
    observer.start(0, 0.0)
    observer.on_activity("evaluate")
    observer.close()
    during = read_status(folder / "status.json")
    observer.on_evaluation(1, 0, EvaluationResult(loss=1.0, metrics={}, samples=1, seconds=1.0))
    observer.on_activity("checkpoint")
    observer.on_event("checkpoint", 1, seconds=0.1)
    observer.close()
    after = read_status(folder / "status.json")
    assert during.activity == "evaluate"
    assert after.activity == "train"
    assert after.step_clock > during.step_clock
    assert after.checkpoint_clock is not None
    assert after.checkpoint_clock > during.step_clock


def test_a_run_without_checkpoints_has_no_checkpoint_age(folder: Path, registry: Path) -> None:
    observer = StatusObserver(folder, replace(FACTS, checkpoints=False))
    observer.start(0, 0.0)
    observer.close()
    assert read_status(folder / "status.json").checkpoint_clock is None


def test_the_error_that_ends_a_run_is_its_finding(folder: Path, registry: Path) -> None:
    observer = StatusObserver(folder, FACTS)
    with contextlib.suppress(RunError), contextlib.ExitStack() as stack:
        stack.callback(observer.close)
        raise NotFiniteError("the loss of step 3 is nan\nmore")
    status = read_status(folder / "status.json")
    assert (status.state, status.finding, status.finding_title) == (
        "failed", "loss-became-nan", "the loss of step 3 is nan",
    )  # fmt: skip


def test_causes_are_known_by_the_type_of_the_error() -> None:
    assert cause_of(torch.OutOfMemoryError("x")) == "cuda-oom-model-too-big"
    assert cause_of(RunError("x")) == "run-failed"
    assert cause_of(KeyError("x")) == "exception-KeyError"
    for cause in ("cuda-oom-model-too-big", "loss-became-nan"):
        assert (Path(__file__).parents[3] / "docs/reference/causes" / f"{cause}.md").exists()


def test_a_place_that_cannot_be_written_does_not_end_a_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("STOKER_RUNS", str(blocked / "below"))
    assert registry_for_writing() is None
    observer = StatusObserver(folder, FACTS)
    observer.close()
    assert read_status(folder / "status.json").state == "starting"


def test_one_s_own_old_entries_are_cleared(folder: Path, registry: Path) -> None:
    registry.mkdir()
    for name, age in (("old.json", 90_000), ("young.json", 10)):
        (registry / name).write_text("{}")
        os.utime(registry / name, (time.time() - age,) * 2)
    StatusObserver(folder, FACTS).close()
    assert {entry.name for entry in registry.glob("*.json")} == {"young.json", registry_name(str(folder))}


def test_a_real_run_leaves_its_status(tmp_path: Path, registry: Path) -> None:
    train_once(Blobs(), tmp_path / "run", duration="6 steps", batch={"global_size": 8})
    status = read_status(tmp_path / "run" / "status.json")
    assert (status.state, status.step, status.total_steps, status.progress_ratio) == ("finished", 6, 6, 1.0)
    assert (status.strategy, status.micro_batch_size, status.samples) == ("single", 8, 48)
    assert status == read_status(registry / registry_name(status.folder))


def test_a_real_run_whose_loss_is_no_number_says_so(tmp_path: Path, registry: Path) -> None:
    with pytest.raises(RunError):
        train_once(Blobs(poison=3), tmp_path / "run", duration="20 steps", batch={"global_size": 8})
    status = read_status(tmp_path / "run" / "status.json")
    assert (status.state, status.finding) == ("failed", "loss-became-nan")


STATUS = RunStatus(folder="/f", state="running", pid=7, pid_start=9, boot_id="b", loss=0.5)


def test_a_status_survives_its_file(tmp_path: Path) -> None:
    write_status(STATUS, [tmp_path / "s.json"])
    assert read_status(tmp_path / "s.json") == STATUS
    assert [entry.name for entry in tmp_path.iterdir()] == ["s.json"]


def test_what_is_no_finite_number_is_null(tmp_path: Path) -> None:
    write_status(replace(STATUS, loss=float("inf"), step_seconds=float("nan")), [tmp_path / "s.json"])
    found = read_status(tmp_path / "s.json")
    assert (found.loss, found.step_seconds) == (None, None)


@pytest.mark.parametrize(
    "change",
    [{"state": "dancing"}, {"pid": "7"}, {"pid": None}, {"loss": "high"}, {"step": 1.5}, {"step": True}, {"task": 3}],
)
def test_what_is_no_status_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    write_status(STATUS, [tmp_path / "s.json"])
    value = json.loads((tmp_path / "s.json").read_text()) | change
    (tmp_path / "s.json").write_text(json.dumps(value))
    with pytest.raises(ValueError):
        read_status(tmp_path / "s.json")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "x" * 100_000])
def test_a_broken_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.json").write_text(text)
    with pytest.raises(ValueError):
        read_status(tmp_path / "s.json")


def test_links_and_pipes_are_not_followed(tmp_path: Path) -> None:
    write_status(STATUS, [tmp_path / "s.json"])
    (tmp_path / "link.json").symlink_to(tmp_path / "s.json")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(OSError):
        read_status(tmp_path / "link.json")
    with pytest.raises(ValueError):
        read_status(tmp_path / "pipe.json")  # empty at once: it must not wait for a writer


def test_the_registry_is_where_the_user_says_or_at_home(tmp_path: Path) -> None:
    assert registries({"STOKER_RUNS": "/a"}) == [Path("/a")]
    assert registries({"XDG_STATE_HOME": str(tmp_path)})[1] == tmp_path / "stoker" / "runs"
