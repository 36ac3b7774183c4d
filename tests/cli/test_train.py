"""`stoker train` from end to end: what it prints, writes and ends with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.runs import rows_of

ROOT = Path(__file__).parents[2]
TASK = '''
import os
import time
from tests.tasks_for_tests import Blobs
from stoker.errors import RunError

RANK = int(os.environ.get("RANK", "0"))


class Plain(Blobs):
    """Without a metric: torchmetrics takes as long to import as torch."""

    def metrics(self):
        return {}


class Slow(Plain):
    def loss(self, model, batch):
        time.sleep(0.05)
        return super().loss(model, batch)


class Told(Blobs):
    """Is told to stop in its second step."""

    def loss(self, model, batch):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 2:
            os.kill(os.getpid(), 15)
        return super().loss(model, batch)


class Stuck(Plain):
    """Does not come to the end of its second step."""

    def loss(self, model, batch):
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls == 2:
            time.sleep(100)
        return super().loss(model, batch)


class Buggy(Plain):
    """Has a bug that shows on rank 1 only."""

    def loss(self, model, batch):
        if RANK == 1:
            raise ZeroDivisionError("a bug of mine")
        return super().loss(model, batch)


class Missing(Plain):
    def train_data(self):
        if RANK == 1:
            raise RunError("the second shard is missing on this rank")
        return super().train_data()


def killed():
    if RANK == 1:
        os.kill(os.getpid(), 9)
    return Plain()
'''
RUN = {
    "task": "task.py:Blobs",
    "output": "out",
    "duration": "6 steps",
    "batch": {"global_size": 12},
    "observe": {"progress": "none", "tensorboard": False},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(RUN))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # and put back what find_task puts before it
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return tmp_path


def test_in_one_process(command: Callable[..., Any], folder: Path) -> None:
    code, out, err = command("train", "run.yaml", "duration=8 steps", "-n", "1")
    assert (code, err) == (0, "")
    assert "where the time went" in out
    assert "The run folder is out; open out/report.html in a browser." in out
    assert "What to try next:" in out
    assert len(rows_of(folder / "out" / "metrics.jsonl")) == 8
    again = command("train", "out/spec.yaml", "-n", "1", "output=again")
    assert again.code == 0
    losses = [[row["loss"] for row in rows_of(folder / run / "metrics.jsonl")] for run in ("out", "again")]
    assert losses[0] == losses[1], "the settled spec is the whole run"
    again = command("train", "run.yaml", "duration=8 steps", "-n", "1", "observe.progress=lines")
    assert again.code == 0
    assert "nothing is left to do" in again.out
    assert len(rows_of(folder / "out" / "metrics.jsonl")) == 8


def test_a_dry_run_trains_nothing(command: Callable[..., Any], folder: Path) -> None:
    code, out, err = command("train", "run.yaml", "--dry-run", "--processes", "2", "duration=2 epochs")
    assert (code, err) == (0, "")
    settled, told = out.split("\n\n")[:2]
    assert yaml.safe_load(settled)["batch"] == {"global_size": 12, "micro_size": "auto"}
    assert "strategy: ddp over 2 processes" in told
    assert "duration: 2 epochs = 16 steps" in told
    assert told.endswith(
        "command: torchrun --standalone --nproc-per-node 2 -m stoker train run.yaml 'duration=2 epochs'\n"
    )
    assert not (folder / "out").exists()


@pytest.mark.slow
def test_the_command_that_a_dry_run_names_can_be_run(command: Callable[..., Any], folder: Path) -> None:
    said = command("train", "run.yaml", "--dry-run", "--processes", "2", "task=task.py:Plain", "duration=4 steps").out
    line = said.splitlines()[-1].removeprefix("command: ")
    done = subprocess.run(
        ["bash", "-c", line.replace("torchrun", f"{sys.executable} -m torch.distributed.run", 1)],
        capture_output=True, text=True, cwd=folder, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("The run folder is out") == 1
    assert len(rows_of(folder / "out" / "metrics.jsonl")) == 4


def test_explain(command: Callable[..., Any]) -> None:
    code, out, _ = command("train", "--explain", "optimizer.lr")
    assert (code, out.splitlines()[0]) == (0, "optimizer.lr: Peak learning rate, reached after the warm-up.")
    code, out, err = command("train", "--explain", "optimizer.learning_rate")
    assert (code, out) == (2, "")
    assert "did you mean 'optimizer.lr'?" in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "the run file does not exist: wrong.yaml"),
        ("folder", "the run file is a folder: wrong.yaml"),
        (b"", "task is missing"),
        (b"\x89PNG\r\n\x1a\n\x00", "cannot be read"),
        (b"\x7fELF\x00\x01", "this is not valid YAML"),
        (b"task: [\n", "wrong.yaml:2: this is not valid YAML"),
        (b"just words\n", "a run file is a mapping of sections"),
        (
            b"task: task.py:Blobs\nduration: 1 epok\nseeds: 3\n",
            "wrong.yaml:3: unknown key 'seeds': did you mean 'seed'?",
        ),
    ],
)
@pytest.mark.parametrize("option", ["--dry-run", "-n1"])
def test_wrong_run_files(content: Any, sentence: str, option: str, command: Callable[..., Any], folder: Path) -> None:
    if content == "folder":
        (folder / "wrong.yaml").mkdir()
    elif content is not None:
        (folder / "wrong.yaml").write_bytes(content)
    code, out, err = command("train", "wrong.yaml", option)
    assert (code, out) == (2, "")
    assert sentence in err
    assert all(line.startswith("error: ") for line in err.splitlines())
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "name a run file: stoker train run.yaml (or --explain KEY)"),
        (["run.yaml", "epochs"], "'epochs' is not an override: write key.path=value"),
        (["run.yaml", "task=task.py:Blob"], "task.py has no 'Blob'; did you mean 'Blobs'?"),
        (["run.yaml", "batch.global_size=97"], "the training data has only 96 samples"),
        (["run.yaml", "task.options.dropuot=1"], "did you mean 'dropout'?"),
        (["run.yaml", "precision=tf32"], "tf32 needs an NVIDIA GPU"),
    ],
)
def test_mistakes_end_with_2(words: list[str], sentence: str, command: Callable[..., Any], folder: Path) -> None:
    code, out, err = command("train", *words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("error: ") == len(err.splitlines()) == 1


def test_a_wrong_number_of_processes_under_a_launcher(
    command: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert "--processes 2, but the launcher started 4: leave it out" in command("train", "run.yaml", "-n", "2").err


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_run_folder_that_cannot_be_made(count: str, command: Callable[..., Any], folder: Path) -> None:
    code, out, err = command("train", "run.yaml", "-n", count, "output=run.yaml/run")
    assert (code, out, err) == (1, "", "error: run.yaml/run cannot be written: Not a directory\n")


def test_a_known_failure_ends_with_1(command: Callable[..., Any], folder: Path) -> None:
    code, _, err = command("train", "run.yaml", "task.options.poison=5", "data.shuffle=false")
    assert code == 1
    assert err.startswith("error: the loss of step 1 is nan (rank 0: samples [0, 1,")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "sentence", "traceback"),
    [
        (["task=task.py:Missing"], 1, "error: the second shard is missing on this rank", False),
        (["task=task.py:Buggy"], 1, "error: rank 1, after step 0: ZeroDivisionError: a bug of mine", True),
        (["task=task.py:killed"], 1, "error: rank 1 was ended by SIGKILL", False),
        (["task=task.py:Nothing"], 2, "error: task.use: ", False),
    ],
)
def test_a_failure_of_two_processes_is_told_once(
    words: list[str], code: int, sentence: str, traceback: bool, command: Callable[..., Any], folder: Path
) -> None:
    found = command("train", "run.yaml", "-n", "2", *words)
    assert found.code == code
    everything = found.out + found.err
    assert everything.count(sentence) == 1
    assert found.err.startswith(sentence)
    assert everything.count("error: ") == 1
    assert everything.count("Traceback") == traceback
    assert ('raise ZeroDivisionError("a bug of mine")' in found.err) == traceback
    if traceback:
        assert "a bug of mine" in (folder / "out" / "logs" / "rank1.log").read_text()
        assert json.loads((folder / "out" / "failure.json").read_text())["rank"] == 1


def test_one_process_told_to_stop(command: Callable[..., Any], folder: Path) -> None:
    code, out, err = command("train", "run.yaml", "-n", "1", "task=task.py:Told")
    assert (code, err) == (75, "")
    assert "Stopped as told, and saved: the same command continues from out/checkpoints." in out
    code, out, _ = command("train", "run.yaml", "-n", "1", "observe.progress=lines")
    assert code == 0
    assert "continuing from out/checkpoints/step-00000002" in out


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "stoker", "train", "run.yaml", "-n", "2", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip


def wait_for(happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the run did not come so far"
        time.sleep(0.02)


@pytest.mark.slow
def test_told_to_stop_and_started_again(command: Callable[..., Any], folder: Path) -> None:
    words = ("task=task.py:Slow", "duration=400 steps", "checkpoint.every=1 steps")
    process = started(folder, *words)
    wait_for(lambda: any((folder / "out" / "checkpoints").glob("step-*")), process)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75, err
    assert "Stopped as told, and saved: the same command continues from out/checkpoints." in out
    assert "Traceback" not in err
    done = len(rows_of(folder / "out" / "metrics.jsonl"))
    assert 0 < done < 400
    again = command("train", "run.yaml", "task=task.py:Slow", f"duration={done + 2} steps", "-n", "1")
    assert again.code == 0
    assert [row["step"] for row in rows_of(folder / "out" / "metrics.jsonl")] == list(range(1, done + 3))


@pytest.mark.slow
def test_a_second_interrupt_ends_at_once(folder: Path) -> None:
    process = started(folder, "task=task.py:Stuck")
    wait_for(lambda: "start" in _events(folder), process)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None, "the ranks were not given the time to save"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "SIGKILL" not in err


def _events(folder: Path) -> str:
    file = folder / "out" / "events.jsonl"
    return file.read_text() if file.exists() else ""
