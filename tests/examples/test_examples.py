"""The examples really run, from their run files, as a person starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.runs import rows_of

ROOT = Path(__file__).parents[2]


def stoker(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stoker", *words], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )


def last_evaluation(run: Path) -> dict[str, float]:
    return rows_of(run / "evaluations.jsonl")[-1]


@pytest.mark.slow
def test_digits_over_two_processes(tmp_path: Path) -> None:
    file = str(ROOT / "examples/digits/run.yaml")
    done = stoker("train", file, "--processes", "2", "checkpoint.keep=2", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    run = tmp_path / "runs" / "digits"
    assert last_evaluation(run)["accuracy"] >= 0.98
    assert last_evaluation(run)["samples"] == 360
    assert "where the time went" in done.stdout
    assert "runs/digits" in done.stdout
    assert done.stdout.count("What to try next:") == 1
    for name in ("spec.yaml", "environment.json", "metrics.jsonl", "report.html", "model/model.safetensors"):
        assert (run / name).stat().st_size > 0, name
    assert not (run / "failure.json").exists()
    assert [row["samples"] for row in rows_of(run / "metrics.jsonl")] == ([64] * 22 + [29]) * 20
    assert yaml.safe_load((run / "spec.yaml").read_text())["checkpoint"]["keep"] == 2
    assert len(json.loads((run / "environment.json").read_text())["devices"]) == 2


@pytest.mark.slow
def test_a_task_of_one_s_own(tmp_path: Path) -> None:
    done = stoker("train", str(ROOT / "examples/own_task/run.yaml"), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert last_evaluation(tmp_path / "runs" / "spirals")["accuracy"] >= 0.97
