"""Run folders of every kind of end, and what is said about them."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import pytest

from stoker.doctor.build import read_causes
from stoker.doctor.catalogue import load_texts
from stoker.doctor.runs import diagnose_run, record_findings
from stoker.doctor.runs.checks import CHECKS, disk_nearly_full
from stoker.doctor.runs.facts import RunFacts, read_steps
from stoker.doctor.runs.process import is_alive
from stoker.errors import UserError
from stoker.report.runfolder import Event, read_run

GONE = 2**22 + 1
"""More than any process number of Linux (PID_MAX_LIMIT of 64-bit systems)."""


def make_run(
    folder: Path,
    *,
    steps: int = 100,
    seconds: Any = lambda step: 0.1,
    data: Any = lambda step: 0.001,
    events: tuple[tuple[str, dict[str, Any]], ...] = (("start", {}), ("end", {"message": ""})),
    pid: int = GONE,
    failure: dict[str, Any] | None = None,
) -> Path:
    """A run folder as `stoker train` leaves it."""
    folder.mkdir()
    (folder / "logs").mkdir()
    environment = {"pid": pid, "host": platform.node(), "world_size": 2, "devices": ["NVIDIA A40", "NVIDIA A40"]}
    (folder / "environment.json").write_text(json.dumps(environment))
    rows = [
        {"step": step, "epoch": 0, "loss": 1.0, "samples": 8, "seconds": seconds(step), "data": data(step),
         "forward": (seconds(step) - data(step)) / 3, "backward": (seconds(step) - data(step)) / 2, "optimizer": 0.0}
        for step in range(1, steps + 1)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [{"time": time.time(), "event": name, "step": steps, **more} for name, more in events]
    (folder / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    if failure is not None:
        told = {
            "rank": 0,
            "step": steps,
            "kind": "RuntimeError",
            "message": "",
            "traceback": "",
            "time": 0.0,
            **failure,
        }
        (folder / "failure.json").write_text(json.dumps(told))
    return folder


def causes(folder: Path, **more: Any) -> list[str]:
    return [finding.cause for finding in diagnose_run(folder, **more).findings]


def test_a_run_that_ended_well_has_no_finding(tmp_path: Path) -> None:
    answer = diagnose_run(make_run(tmp_path / "run"))
    assert (answer.state, answer.step, answer.findings, answer.is_wrong) == ("finished", 100, (), False)
    assert "finished after step 100.\nNothing wrong found." in answer.text()


def test_a_preempted_run_is_healthy(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", events=(("start", {}), ("checkpoint", {"seconds": 0.1}), ("stop", {"message": "SIGTERM"}))
    )
    answer = diagnose_run(run, language="zh")
    assert (answer.state, answer.reason, answer.is_wrong) == ("stopped", "SIGTERM", False)
    assert "按要求停止（SIGTERM）" in answer.text()


def test_a_traceback_goes_through_the_log_reader_and_is_quoted(tmp_path: Path) -> None:
    error = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    traceback = f'Traceback (most recent call last):\n  File "t.py", line 3\n{error}\n'
    run = make_run(tmp_path / "run", failure={"message": "CUDA error", "traceback": traceback}, events=(("start", {}),))
    answer = diagnose_run(run)
    first = answer.findings[0]
    assert (answer.state, first.cause, answer.failed_rank) == ("failed", "uncorrectable-ecc-error", 0)
    assert [(item.source, item.line, item.text) for item in first.evidence] == [("failure.json", 3, error)]


def test_the_root_is_found_in_the_log_of_another_rank(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run",
        failure={
            "traceback": "RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.4]:41234\n"
        },
    )
    (run / "logs" / "rank1.log").write_text("start\nOSError: [Errno 122] Disk quota exceeded: 'checkpoints/a.pt'\n")
    first = diagnose_run(run).findings[0]
    assert (first.cause, first.evidence[0].source, first.evidence[0].line) == ("disk-full", "logs/rank1.log", 2)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("rank 1 was ended by SIGKILL: the kernel does this when memory runs out (see `dmesg`).",
         "process-killed-unconfirmed"),
        ("the disk that holds runs/a is full: free some space and start the run again", "disk-full"),
        ("the loss of step 3 is nan (rank 0: samples [1] give nan).", "loss-became-nan"),
    ],
)  # fmt: skip
def test_what_the_command_says_is_evidence(said: str, cause: str, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", events=(("start", {}),))
    assert cause in causes(run, said=said)


def test_a_run_whose_process_is_gone_was_killed(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", events=(("start", {}), ("checkpoint", {"seconds": 0.1})))
    answer = diagnose_run(run)
    assert answer.state == "gone"
    assert [one.cause for one in answer.findings] == ["run-ended-without-a-word"]
    assert (
        answer.findings[0].evidence[0].text
        == f"events.jsonl ends with checkpoint at step 100, and process {GONE} is gone"
    )


def test_of_a_run_on_another_machine_nothing_is_made_up(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", events=(("start", {}),))
    (run / "environment.json").write_text(json.dumps({"pid": GONE, "host": "elsewhere"}))
    answer = diagnose_run(run)
    assert (answer.state, answer.findings) == ("unknown", ())
    assert "cannot be seen from here" in answer.text()


@pytest.mark.parametrize(("age", "stalled"), [(2, False), (3600, True)])
def test_a_living_run_that_is_silent_is_stalled(age: float, stalled: bool) -> None:
    steps = read_steps([{"step": 1, "seconds": 0.1}] * 30)
    facts = RunFacts(Path("run"), steps, (Event("start"),), environment={"pid": 7}, alive=True, silent=age)
    found = [one for check in CHECKS if (one := check(facts))]
    assert [one.cause for one in found] == ["run-stalled"] * stalled
    assert not stalled or "process 7 is alive" in found[0].evidence[0].text


def test_a_run_that_was_written_to_a_moment_ago_is_running(tmp_path: Path) -> None:
    answer = diagnose_run(make_run(tmp_path / "run", events=(("start", {}),), pid=os.getpid()))
    assert (answer.state, answer.findings) == ("running", ())


def test_a_long_pause_of_this_run_is_no_stall() -> None:
    facts = RunFacts(
        Path("run"), read_steps([{"seconds": 1.0}] * 30), (Event("start"),), (90.0,), alive=True, silent=200
    )
    assert not any(check(facts) for check in CHECKS)


def test_waiting_for_data_is_told_with_its_share(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", data=lambda step: 0.04)
    (finding,) = diagnose_run(run).findings
    assert (finding.cause, finding.state) == ("run-starved-of-data", "warn")
    assert finding.evidence[0].text == "steps 2 to 100: 4.0 s of 9.9 s (40 %) waiting for data"


def test_the_first_step_may_take_long(tmp_path: Path) -> None:
    assert (
        causes(
            make_run(tmp_path / "run", seconds=lambda s: 9.0 if s == 1 else 0.1, data=lambda s: 8.9 if s == 1 else 0.0)
        )
        == []
    )


def test_saves_that_hold_the_run_up(tmp_path: Path) -> None:
    saves = tuple(("checkpoint", {"seconds": 1.0}) for _ in range(5))
    run = make_run(tmp_path / "run", events=(("start", {}), *saves, ("end", {})))
    assert causes(run) == ["run-checkpoints-too-slow"]


def test_steps_that_take_longer_and_longer(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=300, seconds=lambda step: 0.1 + step * 0.0004)
    (finding,) = diagnose_run(run).findings
    assert finding.cause == "run-slows-down"
    assert "times as long; most of it grew in: backward" in finding.evidence[0].text


@pytest.mark.parametrize(
    "seconds",
    [lambda step: 0.1 + 0.01 * (step % 7), lambda step: 0.5 if step % 50 == 0 else 0.1,
     lambda step: 0.3 if 100 < step < 160 else 0.1],
    ids=["noise", "outliers", "one slow stretch"],
)  # fmt: skip
def test_a_pace_that_only_varies_is_left_alone(seconds: Any, tmp_path: Path) -> None:
    assert causes(make_run(tmp_path / "run", steps=300, seconds=seconds)) == []


def test_room_for_the_next_checkpoint() -> None:
    full = RunFacts(Path("run"), events=(Event("start"),), alive=True, free=10, checkpoint=3_400_000_000)
    found = disk_nearly_full(full)
    assert found is not None
    assert found.evidence[0].text == "10 B are free where the run folder is, and a checkpoint takes 3.4 GB"
    assert disk_nearly_full(RunFacts(Path("run"), events=(Event("end"),), free=10, checkpoint=20)) is None


def test_findings_reach_the_report(tmp_path: Path) -> None:
    run = make_run(
        tmp_path / "run", failure={"traceback": "RuntimeError: CUDA error: uncorrectable ECC error encountered"}
    )
    answer = diagnose_run(run)
    assert record_findings(run, answer.failures)
    failure = read_run(run).failure
    assert failure is not None
    assert failure.findings[0] == answer.failures[0]
    assert not record_findings(tmp_path, answer.failures)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"\xff\xfe\x00", b'{"step": "x", "seconds": null}\n{"seconds": 1e999}\n', b"null\n1\n"],
)
def test_damaged_files_are_noted_and_passed_over(content: bytes, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    for name in ("metrics.jsonl", "events.jsonl", "evaluations.jsonl", "environment.json", "failure.json"):
        (run / name).write_bytes(content)
    diagnose_run(run).text()


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        diagnose_run(tmp_path)


def test_a_process_number_that_was_given_to_another_is_not_this_run() -> None:
    here = {"pid": os.getpid(), "host": "here"}
    assert is_alive(here, time.time(), "here")
    assert is_alive(here, 1.0, "here") is False
    assert is_alive(here, time.time(), "elsewhere") is None
    assert is_alive({}, time.time(), "") is None


def test_every_cause_of_a_run_has_a_check_and_texts() -> None:
    known = {cause["id"] for cause in read_causes() if cause["shown_by"] == "run"}
    code = (Path(__file__).parents[3] / "src/stoker/doctor/runs/checks.py").read_text()
    assert known == {cause for cause in known if f'"{cause}"' in code}
    assert all(load_texts("zh")[cause].fix for cause in known)
