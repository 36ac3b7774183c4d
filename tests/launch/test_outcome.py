from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stoker.errors import ExitCode, RunError, UserError
from stoker.launch.local import RankFailure
from stoker.launch.outcome import failure_of
from stoker.train.run_folder import RunFolder


def told(folder: Path, error: Exception, rank: int = 1, step: int | None = 4) -> Path:
    try:
        raise error
    except Exception as raised:
        RunFolder(folder).record_failure(raised, rank=rank, step=step)
    return folder / "failure.json"


ENDED = RankFailure(rank=1, exit_code=1, time=0.0)


@pytest.mark.parametrize(("error", "code"), [(RunError("the loss is nan"), 1), (UserError("no such task"), 2)])
def test_a_known_failure_is_its_sentence(error: UserError, code: int, tmp_path: Path) -> None:
    found = failure_of(told(tmp_path, error), [ENDED])
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.exit_code == code


def test_several_mistakes_stay_several(tmp_path: Path) -> None:
    found = failure_of(told(tmp_path, UserError("a is wrong", "b is missing")), [ENDED])
    assert [mistake.message for mistake in found.mistakes] == ["a is wrong", "b is missing"]


@pytest.mark.parametrize(
    ("step", "place"), [(4, "rank 1, after step 4"), (0, "rank 1, after step 0"), (None, "rank 1")]
)
def test_a_bug_is_shown_with_its_traceback(step: int | None, place: str, tmp_path: Path) -> None:
    found = failure_of(told(tmp_path, ZeroDivisionError("mine"), step=step), [ENDED])
    first, *rest = str(found).splitlines()
    assert first == f"{place}: ZeroDivisionError: mine"
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "ZeroDivisionError: mine"
    assert any("test_outcome.py" in line for line in rest)
    assert found.exit_code == ExitCode.FAILED


@pytest.mark.parametrize(
    ("code", "words"),
    [(-9, "rank 2 was ended by SIGKILL: the kernel does this when memory runs out"),
     (-11, "SIGSEGV: a compiled library crashed; set PYTHONFAULTHANDLER=1"),
     (-7, "SIGBUS: often /dev/shm is full: give the container a larger --shm-size"),
     (-6, "SIGABRT: something outside of the run ended it")],
)  # fmt: skip
def test_a_rank_that_was_killed_comes_before_what_the_others_say(code: int, words: str, tmp_path: Path) -> None:
    file = told(tmp_path, RuntimeError("Connection closed by peer"), rank=0)
    found = failure_of(file, [RankFailure(0, 1, 1.0), RankFailure(2, code, 2.0), RankFailure(3, -9, 3.0)])
    assert words in str(found)
    assert "peer" not in str(found)
    assert str(found).endswith("The run continues from its last checkpoint.")


def test_ranks_that_the_launcher_ended_are_not_the_cause(tmp_path: Path) -> None:
    found = failure_of(told(tmp_path, RunError("the cause")), [RankFailure(0, -15, 1.0), ENDED])
    assert str(found) == "the cause"


@pytest.mark.parametrize("content", [None, "", '{"kind": "RunErr'])
def test_without_a_word(content: Any, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "failure.json").write_text(content)
    found = failure_of(tmp_path / "failure.json", [RankFailure(1, 3, 0.0), RankFailure(0, -15, 1.0)])
    assert type(found) is RunError
    assert str(found) == f"ranks ended without a word (rank 1 with 3, rank 0 with -15); look into {tmp_path / 'logs'}"


def test_what_is_written_down_is_plain_json(tmp_path: Path) -> None:
    assert json.loads(told(tmp_path, RunError("x")).read_text()).keys() == {
        "rank", "step", "kind", "message", "traceback", "time"
    }  # fmt: skip
