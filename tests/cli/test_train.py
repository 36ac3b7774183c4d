"""`stoker train` as a person or a scheduler starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.errors import ExitCode

TASKS = """
import os, time, torch
from torch import nn
from torch.utils.data import TensorDataset
from stoker import Loss, Task

class Line(Task):
    def __init__(self, pause: float = 0.0):
        self.pause = pause
    def build_model(self):
        return nn.Linear(2, 1)
    def train_data(self):
        return TensorDataset(torch.randn(64, 2, generator=torch.Generator().manual_seed(0)))
    def loss(self, model, batch):
        time.sleep(self.pause)
        return Loss(model(batch[0]).square().sum(), len(batch[0]))

class Buggy(Line):
    def loss(self, model, batch):
        if os.environ["RANK"] == "1":
            raise ZeroDivisionError("my bug")
        return super().loss(model, batch)

class Nothing(Line):
    def train_data(self):
        return TensorDataset(torch.zeros(0, 2))
"""


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    (tmp_path / "tasks.py").write_text(TASKS)
    file = tmp_path / "run.yaml"
    file.write_text("task: tasks.py:Line\nduration: 6 steps\nbatch: {global_size: 16}\nobserve: {tensorboard: false}\n")
    return file


def start(run_file: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stoker", "train", run_file.name, *words]
    environ = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    return subprocess.Popen(
        command, cwd=run_file.parent, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, error = process.communicate(timeout=120)
    return process.returncode, out, error


def test_explain_and_help() -> None:
    runner = CliRunner()
    explained = runner.invoke(app, ["train", "--explain", "optimizer.lr"])
    assert explained.exit_code == 0
    assert "takes: a number above 0" in explained.output
    helped = runner.invoke(app, ["train", "--help"])
    assert "  batch.global_size: Samples per optimizer step" in helped.output


@pytest.mark.parametrize("module", ["torch", "pydantic", "yaml", "jinja2"])
def test_help_loads_nothing_heavy(module: str) -> None:
    code = (
        "import sys\nfrom stoker.cli.main import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        f"sys.exit({module!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"stoker --help imports {module}"


def test_a_dry_run_trains_nothing(run_file: Path) -> None:
    code, out, error = finish(start(run_file, "--dry-run", "--processes", "3", "seed=4"))
    assert code == 0, error
    assert "seed: 4" in out
    assert "batch: global batch 16 = 3 ranks x 1 micro-batch of at most 6" in out
    assert "devices: " in out
    assert "command: torchrun --standalone --nproc-per-node 3 -m stoker train run.yaml seed=4" in out
    assert not (run_file.parent / "runs").exists()


def test_mistakes_end_with_two(run_file: Path) -> None:
    code, _, error = finish(start(run_file, "optimizer.nmae=sgd", "task.use=tasks.py:Lien", "--processes", "1"))
    assert code == ExitCode.USAGE
    assert error == (
        "error: command line (optimizer.nmae=sgd): unknown key 'optimizer.nmae': did you mean 'optimizer.name'?\n"
    )
    code, _, error = finish(start(run_file, "task.use=tasks.py:Lien"))
    assert code == ExitCode.USAGE
    assert "has no 'Lien'; did you mean 'Line'?" in error


@pytest.mark.slow
def test_two_processes_and_their_report(run_file: Path) -> None:
    code, out, error = finish(start(run_file, "--processes", "2"))
    assert code == 0, error
    assert "ddp over 2 processes" in out
    assert "What to try next" in out
    run = run_file.parent / "runs" / "run"
    assert json.loads((run / "environment.json").read_text())["devices"] == ["CPU", "CPU"]
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 6
    again = finish(start(run / "spec.yaml", "output=again"))
    assert again[0] == 0, again[2]
    ours, theirs = (
        [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (run / "again", run)
    )
    assert ours == pytest.approx(theirs, rel=1e-5)


@pytest.mark.slow
def test_the_first_failure_is_told_once(run_file: Path) -> None:
    code, out, error = finish(start(run_file, "--processes", "2", "task.use=tasks.py:Buggy"))
    assert code == ExitCode.FAILED
    assert (out + error).count("ZeroDivisionError: my bug") == 2, "the sentence, and the end of its traceback"
    assert error.startswith("error: rank 1, after step 0: ZeroDivisionError: my bug\nTraceback")
    assert "elastic" not in error
    failure = json.loads((run_file.parent / "runs/run/failure.json").read_text())
    assert (failure["rank"], failure["kind"]) == (1, "ZeroDivisionError")
    assert "my bug" in (run_file.parent / "runs/run/logs/rank1.log").read_text()


@pytest.mark.slow
def test_a_mistake_found_by_the_ranks_is_told_once(run_file: Path) -> None:
    code, _, error = finish(start(run_file, "--processes", "2", "task.use=tasks.py:Nothing"))
    assert code == ExitCode.USAGE
    assert error == "error: the training data is empty: Task.train_data() has no samples\n"


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_told_to_stop_saves_and_can_be_resumed(processes: int, run_file: Path) -> None:
    words = ("--processes", str(processes), "duration=400 steps", "task.options.pause=0.02")
    process = start(run_file, *words)
    metrics = run_file.parent / "runs" / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    code, out, error = finish(process)
    assert code == ExitCode.STOPPED, error
    assert "Stopped as told, and saved" in out
    saved = max(int(folder.name.split("-")[1]) for folder in (metrics.parent / "checkpoints").glob("step-*"))
    assert 0 < saved < 400
    code, out, error = finish(start(run_file, *words[:2], f"duration={saved + 3} steps", "task.options.pause=0"))
    assert code == 0, error
    assert f"continuing from runs/run/checkpoints/step-{saved:08d}" in out
    steps = [json.loads(line)["step"] for line in metrics.read_text().splitlines()]
    assert steps == list(range(1, saved + 4))


@pytest.mark.slow
def test_started_by_torchrun_it_joins(run_file: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    done = subprocess.run(
        [*command, "stoker", "train", "run.yaml"], cwd=run_file.parent, capture_output=True, text=True, timeout=120,
        check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ddp over 2 processes" in done.stdout
    assert done.stdout.count("What to try next") == 1
    assert "launcher started 2: leave it out" in subprocess.run(
        [sys.executable, "-m", "stoker", "train", "run.yaml", "--processes", "3"], cwd=run_file.parent, text=True,
        capture_output=True, check=False, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"},
    ).stderr  # fmt: skip
