"""Predicted beside measured, in every form of the report."""

from __future__ import annotations

import json

import pytest
from rich.console import Console

from stoker.report.html import render_report
from stoker.report.machine import report_json
from stoker.report.predicted import comparisons
from stoker.report.runfolder import read_run
from stoker.report.terminal import print_report
from tests.report.conftest import lines, write_run

PLAN = {
    "format": 1, "device": "RTX 4090", "kind": "gpu", "processes": 2, "layout": "ddp=2",
    "memory": {"reserved": 4 << 30, "device_bytes": 5 << 30},
    "speed": {"step_seconds": {"expected": 0.4, "low": 0.3, "high": 0.6}},
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    def make(plan=PLAN, ranks=2, kind="reserved"):
        write_run(tmp_path / "run")
        folder = tmp_path / "run"
        (folder / "plan.json").write_text(json.dumps(plan))
        (folder / "spec.yaml").write_text("task: points\nbatch: {global_size: 64}\n")
        environment = json.loads((folder / "environment.json").read_text())
        (folder / "environment.json").write_text(json.dumps({**environment, "world_size": ranks}))
        with (folder / "events.jsonl").open("a") as file:
            file.write(lines([{"event": "memory", "time": 1.7e9 + 40, "kind": kind, "peak_bytes": 3 << 30}]))
        return read_run(folder)

    return make


def test_step_time_and_memory(run) -> None:
    time, memory = comparisons(run())
    assert (time.expected, time.low, time.high) == (0.4, 0.3, 0.6)
    assert time.measured == pytest.approx(0.5)  # 64 samples at 128 a second
    assert time.ratio_text == "1.25 times, within the range"
    assert time.note == "20 % of the measured time is waiting for data, which is not predicted"
    assert (memory.expected, memory.measured) == (4 << 30, 3 << 30)
    assert memory.ratio_text == "0.75 times"


def test_a_cpu_is_compared_by_what_the_process_held(run) -> None:
    _, memory = comparisons(run({**PLAN, "kind": "cpu"}, kind="resident"))
    assert (memory.name, memory.expected) == ("Peak memory (resident)", 5 << 30)


def test_unknown_stays_unknown(run) -> None:
    time, memory = comparisons(run({**PLAN, "speed": None}, kind="resident"))
    assert (time.predicted_text, time.ratio_text) == ("–", "–")
    assert (memory.measured_text, memory.ratio) == ("–", None)


def test_a_run_of_other_size_or_without_a_plan_is_not_compared(run, tmp_path) -> None:
    assert comparisons(run(ranks=4)) == ()
    (tmp_path / "run" / "plan.json").unlink()
    assert comparisons(read_run(tmp_path / "run")) == ()


def test_all_forms_show_it(run) -> None:
    record = run()
    console = Console(width=120, record=True, color_system=None)
    print_report(record, console)
    page = render_report(record)
    assert "Predicted and measured" in page
    assert "400 ms (300 ms to 600 ms)" in page
    data = json.loads(report_json([record]))["runs"][0]["predicted"]
    assert [row["name"] for row in data] == ["Step time", "Peak memory (reserved)"]
    assert data[0]["measured"] == pytest.approx(0.5)


def test_the_terminal_shows_it(run, capsys) -> None:
    print_report(run(), Console(width=120, color_system=None))
    out = capsys.readouterr().out
    assert "predicted and measured" in out
    assert "predicted 400 ms (300 ms to 600 ms)" in out
    assert "measured 500 ms" in out
