"""A real `stoker train` on the page of a real `stoker monitor serve`, while it runs and when it is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.monitor.test_serve import TASK, Exporter, _children, exporter
from tests.monitor.waiting import until

__all__ = ["exporter"]  # a fixture


def section(started: Exporter, name: str) -> str:
    """The part of the page that is about a run; empty while it has none."""
    found = re.findall(r"<section.*?</section>", started.get("/?lang=en"), re.DOTALL)
    return next((part for part in found if f"<h2>{name} " in part), "")


def step_of(started: Exporter) -> int:
    match = re.search(r"step ([\d,]+) of 100,000", section(started, "mine"))
    return int(match[1].replace(",", "")) if match else 0


@pytest.mark.slow
def test_a_run_is_seen_while_it_runs_and_when_it_is_killed(tmp_path: Path, exporter: Callable[..., Exporter]) -> None:
    (tmp_path / "task.py").write_text(TASK)
    (tmp_path / "run.yaml").write_text(
        "task: task.py:task\nduration: 100000 steps\nbatch: {global_size: 16, micro_size: 8}\n"
        f"data: {{workers: 0}}\noutput: {tmp_path / 'mine'}\nobserve: {{progress: none, tensorboard: false}}\n"
    )
    command = [sys.executable, "-m", "stoker", "train", str(tmp_path / "run.yaml"), "--processes", "1"]
    started = exporter("--interval", 0.5)
    run = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: step_of(started) > 5, 120)
        first = step_of(started)
        until(lambda: step_of(started) > first, 30)
        shown = section(started, "mine")
        assert '<span class="mark good">running</span>' in shown
        assert "micro-batch 8" in shown
        for label in ("Loss", "Samples/s", "Waiting for data", "Since the last step", "Since the last checkpoint"):
            assert f'<span class="label">{label}</span>' in shown
        assert '<svg class="spark' in shown, "no history"
        assert "Simulated" not in started.get("/?lang=en")

        for pid in [*_children(run.pid), run.pid]:
            os.kill(pid, signal.SIGKILL)
        run.wait()
        until(lambda: "was killed: its process is gone" in started.get("/?lang=en"), 60)
        shown = section(started, "mine")
        assert '<span class="mark bad">killed</span>' in shown
        assert "Since the last step" not in shown, "a run that ended waits for nothing"
    finally:
        for pid in [*_children(run.pid), run.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        run.wait()
