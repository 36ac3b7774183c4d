"""`stoker doctor` and `stoker doctor snapshot`, on this machine and on simulated ones."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.doctor.checks.base import CHECKS
from stoker.errors import ExitCode, UserError
from stoker.host.snapshot import snapshot_from_json
from tests.doctor.machines.catalogue import MACHINES


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["doctor", *words])
    if isinstance(result.exception, UserError):
        return result.exception.exit_code, str(result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


def test_this_machine_has_no_false_failure_and_says_what_it_is() -> None:
    """Run where there is no GPU it says so, and which checks that leaves unknown."""
    began = time.monotonic()
    code, output = run("--format", "json")
    took = time.monotonic() - began
    answer = json.loads(output)
    by_check = {one["check"]: one for one in answer["findings"]}
    assert set(by_check) == set(CHECKS)
    assert took < 30, "even a busy machine answers in seconds"
    if not Path("/proc/driver/nvidia").exists():
        assert code == ExitCode.OK, [one["title"] for one in answer["findings"] if one["state"] == "fail"]
        assert (by_check["ecc-errors"]["state"], by_check["gpu-count"]["state"]) == ("unknown", "unknown")
        code, output = run()
        assert "no NVIDIA GPU" in output
        assert "There is no GPU here that could be judged; nothing wrong was found" in output or "warn" in output


@pytest.mark.parametrize(
    ("name", "code"), [("driver-mismatch", ExitCode.FAILED), ("link-at-x4", ExitCode.OK), ("2x4090", ExitCode.OK)]
)
def test_a_copied_tree(name: str, code: int, tmp_path: Path) -> None:
    root = MACHINES[name]().write(tmp_path)
    found, output = run("--root", str(root))
    assert found == code
    assert f"{len(CHECKS)} checks" in output
    assert run("--root", str(root), "--format", "html")[1].startswith("<!doctype html>")


def test_only_some_checks(tmp_path: Path) -> None:
    root = MACHINES["driver-mismatch"]().write(tmp_path)
    assert run("--root", str(root), "--only", "storage,memory", "--only", "cpu")[0] == ExitCode.OK
    assert run("--root", str(root), "--only", "driver-library")[0] == ExitCode.FAILED


def test_mistakes_are_sentences(tmp_path: Path) -> None:
    assert run("--only", "gpux") == (
        ExitCode.USAGE,
        "there is no check or area 'gpux': the areas are driver, gpu, links, network, container, slurm, software, "
        "settings, memory, cpu, storage, system; did you mean gpu?",
    )
    assert run("--root", str(tmp_path / "none"))[0] == ExitCode.USAGE
    assert run("--watch", "1", "--format", "html")[0] == ExitCode.USAGE
    assert run("--watch", "0")[0] == ExitCode.USAGE


def test_watching_ends_with_an_interrupt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    waits: list[float] = []

    def interrupt(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("stoker.cli.doctor_machine.time.sleep", interrupt)
    root = MACHINES["2x4090"]().write(tmp_path)
    code, output = run("--root", str(root), "--only", "gpu", "--watch", "3")
    assert (code, waits) == (ExitCode.OK, [3, 3])
    assert output.count("checks:") == 2


def test_a_snapshot_on_the_output_and_in_a_file(tmp_path: Path) -> None:
    root = MACHINES["4x3090-PCIe"]().write(tmp_path / "machine")
    code, text = run("snapshot", "--root", str(root))
    assert code == ExitCode.OK
    snapshot = snapshot_from_json(text)
    assert [gpu.name for gpu in snapshot.gpus.devices] == ["NVIDIA GeForce RTX 3090"] * 4
    code, said = run("snapshot", "--root", str(root), "--out", str(tmp_path / "machine.json"))
    assert said.strip() == str(tmp_path / "machine.json")
    written = snapshot_from_json((tmp_path / "machine.json").read_text())
    assert written.gpus == snapshot.gpus


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "this is no snapshot of a machine"),
        ("[1]", "this is no snapshot of a machine"),
        ('{"version": 99, "system": {}}', "written in format 99, and this stoker knows 1: use a newer stoker"),
        ('{"version": 1, "system": {"kernel": 5}}', "Snapshot.system.kernel: str is expected, not int"),
        ('{"version": 1, "system": {}, "gpus": {"devices": [{"index": true}]}}', "a number is expected, not True"),
    ],
)
def test_what_is_no_snapshot(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        snapshot_from_json(text)
