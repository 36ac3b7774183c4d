"""Saves that fail: older checkpoints stay, nothing half written is left, and the sentence says what to do."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from stoker.data.batches import Position
from stoker.errors import RunError
from stoker.train.checkpoint import CheckpointStore, Progress, Saver, state_of
from stoker.train.checkpoint.store import step_of
from tests.runs import rows_of, train_once
from tests.tasks_for_tests import Blobs
from tests.train.checkpoint.test_checkpoint import WORLD, make_steps, trainee

FULL = OSError(errno.ENOSPC, "No space left on device")
DENIED = PermissionError(errno.EACCES, "Permission denied")


class Failing:
    """Stands in for a method of the store, and fails from its second call on."""

    def __init__(self, kept: Any, error: Exception) -> None:
        self.kept, self.error, self.calls = kept, error, 0

    def __get__(self, store: Any, kind: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls += 1
            if self.calls > 1:
                raise self.error
            return self.kept(store, *arguments)

        return call


@pytest.mark.parametrize("method", ["start", "commit"])
@pytest.mark.parametrize(
    ("error", "sentence"),
    [(FULL, "the disk is full while saving step 2 to {root}: free some space"),
     (DENIED, "saving step 2 to {root} failed: PermissionError: [Errno 13] Permission denied")],
)  # fmt: skip
def test_a_save_that_fails(
    method: str, error: Exception, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointStore, method, Failing(getattr(CheckpointStore, method), error))
    store, one = CheckpointStore(tmp_path), trainee()
    make_steps(one, range(1))
    saver = Saver(store, WORLD, keep=3, asynchronous=False)
    saver.save(state_of(one, WORLD), Progress(Position(1)))
    with pytest.raises(RunError) as caught:
        saver.save(state_of(one, WORLD), Progress(Position(2)))
    saver.close()
    assert str(caught.value).startswith(sentence.format(root=tmp_path))
    assert str(caught.value).endswith(f"the run can continue from {store.final(1)}.")
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000001"]


def test_without_an_earlier_checkpoint_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    saver = Saver(CheckpointStore(tmp_path / "file"), WORLD, keep=3, asynchronous=False)
    with pytest.raises(RunError, match="no earlier checkpoint exists"):
        saver.save(state_of(trainee(), WORLD), Progress(Position(1)))
    saver.close()


def test_a_failure_in_the_background_is_kept_until_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointStore, "commit", Failing(CheckpointStore.commit, DENIED))
    store, one = CheckpointStore(tmp_path), trainee()
    saver = Saver(store, WORLD, keep=3, asynchronous=True)
    assert not saver.failed
    saver.save(state_of(one, WORLD), Progress(Position(1)))
    saver.save(state_of(one, WORLD), Progress(Position(2)))
    saver.close()  # waits for the thread
    assert saver.failed
    with pytest.raises(RunError, match="saving step 2"):
        saver.wait()
    assert not saver.failed
    saver.wait()


def test_a_run_whose_save_failed_in_the_background_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CheckpointStore, "commit", Failing(CheckpointStore.commit, FULL))
    with pytest.raises(
        RunError, match=r"the disk is full while saving step \d+ to .*; the run can continue from .*00001"
    ):
        train_once(Blobs(), tmp_path, "batch.global_size=12", "duration=200 steps", "checkpoint.every=1 steps")
    store = CheckpointStore(tmp_path / "checkpoints")
    assert [step_of(folder) for folder in store.complete()] == [1]
    assert len(rows_of(tmp_path / "metrics.jsonl")) < 10
    monkeypatch.undo()
    again = train_once(Blobs(), tmp_path, "batch.global_size=12", "duration=12 steps")
    assert [row["step"] for row in again.rows] == list(range(1, 13))
