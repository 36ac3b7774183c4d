from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import RunError
from stoker.train.observe.files import FileObserver
from stoker.train.run_folder import JsonLines, RunFolder, disk_errors, parsed
from tests.runs import rows_of


def test_a_line_holds_null_where_a_value_is_not_finite(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "rows.jsonl")
    lines.append({"step": 1, "grad_norm": float("inf"), "loss": float("nan"), "lr": 0.5})
    lines.flush()
    assert (tmp_path / "rows.jsonl").read_text() == '{"step": 1, "grad_norm": null, "loss": null, "lr": 0.5}\n'


def test_lines_reach_the_file_when_flushed(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "rows.jsonl")
    lines.append({"step": 1})
    assert not (tmp_path / "rows.jsonl").exists()
    lines.flush()
    lines.append({"step": 2})
    lines.flush()
    lines.flush()
    assert rows_of(tmp_path / "rows.jsonl") == [{"step": 1}, {"step": 2}]


def test_and_about_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    lines = JsonLines(tmp_path / "rows.jsonl")
    lines.append({"step": 1})
    now[0] += 1.5
    lines.append({"step": 2})
    assert rows_of(tmp_path / "rows.jsonl") == [{"step": 1}, {"step": 2}]


@pytest.mark.parametrize("half", ['{"step": 4', '{"step": 4}', "\x00\x00", "4\n", ""])
def test_what_is_not_wanted_and_half_a_line_are_dropped(half: str, tmp_path: Path) -> None:
    """A line counts once its end is written."""
    file = tmp_path / "rows.jsonl"
    file.write_text('{"step": 1}\n{"step": 2}\n{"step": 3}\n' + half)
    lines = JsonLines(file)
    lines.keep(lambda row: row["step"] <= 2)
    assert file.read_text() == '{"step": 1}\n{"step": 2}\n'
    assert list(tmp_path.iterdir()) == [file]


def test_nothing_to_keep(tmp_path: Path) -> None:
    JsonLines(tmp_path / "rows.jsonl").keep(lambda row: True)
    assert list(tmp_path.iterdir()) == []


def test_a_line(tmp_path: Path) -> None:
    assert parsed('{"a": 1}\n') == {"a": 1}
    assert [parsed(line) for line in ('{"a": 1}', "[1]\n", "{\n", "\n")] == [None] * 4


def test_an_event_is_not_glued_to_half_a_line(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text('{"event": "start", "step": 0}\n{"event": "che')
    observer = FileObserver(tmp_path)
    observer.on_event("resume", 0)
    assert [row["event"] for row in rows_of(tmp_path / "events.jsonl")] == ["start", "resume"]


def test_the_first_failure_is_the_one_that_stays(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    try:
        raise ValueError("first")
    except ValueError as error:
        folder.record_failure(error, rank=1, step=7)
    folder.record_failure(RunError("second"), rank=0, step=8)
    told = json.loads(folder.failure.read_text())
    assert (told["rank"], told["step"], told["kind"], told["message"]) == (1, 7, "ValueError", "first")
    assert "test_run_folder.py" in told["traceback"]
    assert list(tmp_path.iterdir()) == [folder.failure]


def test_a_failure_that_cannot_be_written_does_not_hide_the_error(tmp_path: Path) -> None:
    RunFolder(tmp_path / "gone").record_failure(ValueError("x"), rank=0, step=None)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize(
    ("number", "sentence"),
    [
        (errno.ENOSPC, "is full: free some space and start the run again"),
        (errno.EDQUOT, "is full"),
        (errno.EACCES, "/runs cannot be written: Permission denied"),
        (errno.EIO, "/runs cannot be written: Input/output error"),
    ],
)
def test_errors_of_the_disk_are_sentences(number: int, sentence: str) -> None:
    with pytest.raises(RunError, match=sentence), disk_errors(Path("/runs")):
        raise OSError(number, os.strerror(number))


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), disk_errors(Path("/runs")):
        raise KeyError("x")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written: Not a directory"):
        RunFolder(tmp_path / "file" / "run").create()


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "run")
    folder.create()
    value: dict[str, Any] = {"b": [1, None], "a": "ü"}
    for _ in range(2):
        folder.write_json("x.json", value)
        folder.write_yaml("x.yaml", value)
    assert json.loads((folder.root / "x.json").read_text()) == value
    assert yaml.safe_load((folder.root / "x.yaml").read_text()) == value
    assert "ü" in (folder.root / "x.yaml").read_text()
    assert {path.name for path in folder.root.iterdir()} == {"x.json", "x.yaml", "logs"}
