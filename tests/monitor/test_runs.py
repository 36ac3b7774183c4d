"""Runs are found in the registries, and those whose process is gone are told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from stoker.monitor import runs as module
from stoker.monitor.runs import KILLED, RunFinder, as_run, launchers_of
from stoker.run_status import RunStatus, boot_id, process_identity, registry_name, write_status


def status_of(pid: int, folder: Path, **changes: object) -> RunStatus:
    identity = process_identity(pid)
    assert identity is not None
    now = time.monotonic()
    found = RunStatus(
        folder=str(folder), state="running", pid=pid, pid_start=identity.start, boot_id=boot_id(),
        written_time=time.time(), written_clock=now, step_clock=now - 3, checkpoint_clock=now - 60, step=7, loss=0.5,
        samples_per_second=100.0, activity="train", started_time=time.time() - 100,
    )  # fmt: skip
    return replace(found, **changes)  # type: ignore[arg-type]


def register(registry: Path, status: RunStatus) -> None:
    registry.mkdir(exist_ok=True)
    write_status(status, [registry / registry_name(status.folder)])


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield started
    started.kill()
    started.wait()


def test_a_run_that_goes_on(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    register(tmp_path / "r", status_of(process.pid, tmp_path / "mine"))
    (seen,) = RunFinder([tmp_path / "none", tmp_path / "r"]).find()
    run = as_run(seen, ("0",), time.monotonic())
    assert (run.run, run.state, run.pid, run.gpus, run.step) == ("mine", "running", process.pid, ("0",), 7)
    assert run.since_step_seconds == pytest.approx(3, abs=2)
    assert run.checkpoint_age_seconds == pytest.approx(60, abs=2)
    assert run.ended_time is None
    assert run.user


def test_a_killed_run_is_shown_as_ended_with_its_finding(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    register(tmp_path / "r", status_of(process.pid, tmp_path / "mine"))
    finder = RunFinder([tmp_path / "r"])
    assert finder.find()[0].pid == process.pid
    process.kill()
    process.wait()
    run = as_run(finder.find()[0], (), time.monotonic())
    assert (run.state, run.finding, run.pid) == ("killed", KILLED, None)
    assert run.ended_time == pytest.approx(time.time(), abs=20)
    assert (run.since_step_seconds, run.samples_per_second, run.checkpoint_age_seconds) == (None, None, None)
    assert run.loss == 0.5


def test_a_later_process_of_the_same_number_is_not_the_run(tmp_path: Path) -> None:
    register(tmp_path / "r", replace(status_of(os.getpid(), tmp_path / "mine"), pid_start=1))
    assert RunFinder([tmp_path / "r"]).find()[0].pid is None


def test_nor_is_one_of_an_earlier_boot(tmp_path: Path) -> None:
    register(tmp_path / "r", status_of(os.getpid(), tmp_path / "mine", boot_id="another"))
    assert RunFinder([tmp_path / "r"]).find()[0].pid is None


def test_a_failure_of_another_rank_is_the_finding(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "failure.json").write_text(json.dumps({"kind": "KeyError", "message": "no such\nkey"}))
    register(tmp_path / "r", status_of(process.pid, folder))
    process.kill()
    process.wait()
    run = as_run(RunFinder([tmp_path / "r"]).find()[0], (), time.monotonic())
    assert (run.state, run.finding, run.finding_title) == ("failed", "exception-KeyError", "no such")


def test_what_a_run_said_of_its_own_end_counts(tmp_path: Path) -> None:
    ended = status_of(os.getpid(), tmp_path / "a", state="failed", finding="loss-became-nan", ended_time=time.time())
    register(tmp_path / "r", ended)
    run = as_run(RunFinder([tmp_path / "r"]).find()[0], (), time.monotonic())
    assert (run.state, run.finding, run.since_step_seconds) == ("failed", "loss-became-nan", None)


def test_runs_that_ended_long_ago_are_not_shown(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    long_ago = time.time() - 2 * module.SHOWN_AFTER_END
    old = status_of(process.pid, tmp_path / "old", written_time=long_ago)
    process.kill()
    process.wait()
    register(tmp_path / "r", old)
    register(tmp_path / "r", status_of(os.getpid(), tmp_path / "stuck", written_time=long_ago))  # lives: still shown
    assert [Path(seen.status.folder).name for seen in RunFinder([tmp_path / "r"]).find()] == ["stuck"]


def test_entries_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    registry = tmp_path / "r"
    register(registry, status_of(os.getpid(), tmp_path / "mine"))
    (registry / "broken.json").write_text("{")
    (registry / "link.json").symlink_to(registry / "broken.json")
    (registry / "huge.json").write_text("[" * 10**6)
    (registry / ".half.json.7").write_text("{")
    finder = RunFinder([registry])
    assert len(finder.find()) == 1
    assert finder.unreadable == 3


def test_of_two_entries_of_a_folder_the_later_counts(tmp_path: Path) -> None:
    register(tmp_path / "a", status_of(os.getpid(), tmp_path / "mine", step=1, written_time=time.time() - 50))
    register(tmp_path / "b", status_of(os.getpid(), tmp_path / "mine", step=2))
    assert [seen.status.step for seen in RunFinder([tmp_path / "b", tmp_path / "a"]).find()] == [2]


def test_the_launcher_stands_for_its_ranks(tmp_path: Path) -> None:
    register(tmp_path / "r", status_of(os.getpid(), tmp_path / "mine", launcher=os.getppid()))
    folders = launchers_of(RunFinder([tmp_path / "r"]).find())
    assert folders == {os.getpid(): str(tmp_path / "mine"), os.getppid(): str(tmp_path / "mine")}


def test_a_process_of_a_container_is_found_by_its_inner_number(
    tmp_path: Path, process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the kernel says of a pid namespace is imitated; the start time is the real one."""
    status = replace(status_of(process.pid, tmp_path / "mine"), pid=7)
    monkeypatch.setattr(module, "_inner_pid", lambda pid: 7 if pid == process.pid else pid)
    register(tmp_path / "r", status)
    assert RunFinder([tmp_path / "r"]).find()[0].pid == process.pid
