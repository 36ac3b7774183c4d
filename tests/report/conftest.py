"""Synthetic run folders, in the form in which `stoker train` writes them."""

import json
import math
from pathlib import Path

import pytest

START = 1_700_000_000.0
SPEC = """\
task:
  name: image-classification
  model: resnet18
seed: {seed}
data:
  workers: {workers}
optimizer:
  name: sgd
  lr: {lr}
output:
  folder: {folder}
"""


def metric_row(step, *, loss=None, **changes):
    row = {
        "step": step,
        "epoch": step / 10,
        "loss": 2.0 * math.exp(-step / 30) if loss is None else loss,
        "samples": 64,
        "weight": 64.0,
        "lr": 0.1,
        "seconds": 0.5,
        "data": 0.1,
        "forward": 0.1,
        "backward": 0.2,
        "optimizer": 0.05,
        "grad_norm": 1.0,
        "accuracy": 1 - 0.9 * math.exp(-step / 30),
    }
    return {key: value for key, value in {**row, **changes}.items() if value is not ...}


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def write_run(
    folder: Path,
    *,
    steps=40,
    workers=2,
    lr=0.1,
    seed=0,
    rows=None,
    events=None,
    failure=None,
    metrics_tail="",
):
    """A run of `steps` steps of 0.5 s, evaluated every 10 steps for 2 s, saved after step 20 for 1 s."""
    folder.mkdir(parents=True)
    (folder / "spec.yaml").write_text(SPEC.format(seed=seed, workers=workers, lr=lr, folder=folder))
    environment = {
        "stoker": "0.1.0",
        "packages": {"torch": "2.14.1", "numpy": "2.3.1"},
        "cpu": {"model": "test cpu", "cores": 16},
        "memory_bytes": 64 * 2**30,
        "devices": ["Test GPU", "Test GPU"],
        "world_size": 2,
        "precision": "bf16",
        "command": "stoker train run.yaml",
    }
    (folder / "environment.json").write_text(json.dumps(environment))
    rows = [metric_row(step) for step in range(1, steps + 1)] if rows is None else rows
    (folder / "metrics.jsonl").write_text(lines(rows) + metrics_tail)
    evaluations = [
        {
            "step": step,
            "epoch": step / 10,
            "seconds": 2.0,
            "samples": 100,
            "loss": 1 / step,
            "accuracy": step / 100,
        }
        for step in range(10, steps + 1, 10)
    ]
    (folder / "evaluations.jsonl").write_text(lines(evaluations))
    if events is None:
        events = [
            {"time": START, "event": "start", "step": 0},
            {"time": START + 15, "event": "checkpoint", "step": 20, "seconds": 1.0},
            {"time": START + 40, "event": "end", "step": steps},
        ]
    (folder / "events.jsonl").write_text(lines(events))
    if failure is not None:
        (folder / "failure.json").write_text(json.dumps(failure))
    for step in (20, steps):
        (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def make_run(tmp_path):
    def make(name="run", **settings):
        return write_run(tmp_path / name, **settings)

    return make


@pytest.fixture
def row():
    return metric_row


@pytest.fixture
def start():
    return START
