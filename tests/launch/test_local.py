from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stoker.errors import ExitCode
from stoker.launch.local import _outcome, child_processes, launch, threads_per_process, torchrun_line


def test_the_torchrun_line_can_be_pasted_into_a_shell() -> None:
    command = ["stoker", "train", "my run.yaml", "duration=2 epochs", "optimizer.options={betas: [0.9, 0.95]}"]
    line = torchrun_line(command, 4)
    assert shlex.split(line) == ["torchrun", "--standalone", "--nproc-per-node", "4", "-m", *command]
    assert torchrun_line(["stoker", "train", "run.yaml", "seed=3"], 2).endswith("-m stoker train run.yaml seed=3")


@pytest.mark.parametrize(
    ("cores", "processes", "environ", "threads"),
    [(16, 4, {}, "4"), (2, 8, {}, "1"), (16, 3, {}, "5"), (16, 4, {"OMP_NUM_THREADS": "7"}, "7"),
     (16, 4, {"OMP_NUM_THREADS": ""}, "4"), (16, 4, {"OMP_NUM_THREADS": "4,2"}, "4,2")],
)  # fmt: skip
def test_threads(cores: int, processes: int, environ: dict[str, str], threads: str) -> None:
    assert threads_per_process(cores, processes, environ) == threads


@pytest.mark.parametrize(
    ("codes", "code", "first"),
    [
        ([75, 75], ExitCode.STOPPED, None),
        ([75, -15], ExitCode.STOPPED, None),
        ([-15, -15], ExitCode.FAILED, 0),
        ([75, 1], ExitCode.FAILED, 0),
        ([75, -9], ExitCode.FAILED, 0),
        ([2, -15], ExitCode.USAGE, 0),
        ([1, 2], ExitCode.USAGE, 0),
        ([1, -15], ExitCode.FAILED, 0),
        ([130, 130], ExitCode.FAILED, 0),
    ],
)
def test_how_a_run_ended_from_its_ranks(codes: list[int], code: ExitCode, first: int | None) -> None:
    failures = {rank: SimpleNamespace(exitcode=one, timestamp=rank) for rank, one in enumerate(codes)}
    found, ranks = _outcome(failures)
    assert found is code
    assert [one.rank for one in ranks][:1] == ([] if first is None else [first])


def test_the_first_failure_comes_first() -> None:
    failures = {rank: SimpleNamespace(exitcode=1, timestamp=10 - rank) for rank in range(4)}
    assert [failure.rank for failure in _outcome(failures)[1]] == [3, 2, 1, 0]


def test_child_processes() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert child.pid in child_processes(os.getpid())
    finally:
        child.kill()
        child.wait()
    assert child.pid not in child_processes(os.getpid())


def test_children_of_all_threads(tmp_path: Path) -> None:
    for thread, children in (("10", "11 12 "), ("13", ""), ("14", "15")):
        (tmp_path / "10" / "task" / thread).mkdir(parents=True)
        (tmp_path / "10" / "task" / thread / "children").write_text(children)
    assert sorted(child_processes(10, tmp_path)) == [11, 12, 15]
    assert child_processes(99, tmp_path) == []


MODULE = """
import os, pathlib, sys, time
rank = int(os.environ["RANK"])
pathlib.Path(sys.argv[1], f"rank{rank}").write_text(os.environ["OMP_NUM_THREADS"] + " " + os.environ["WORLD_SIZE"])
while not all(pathlib.Path(sys.argv[1], f"rank{other}").exists() for other in (0, 1)):
    time.sleep(0.01)  # nobody ends before the other has begun
if sys.argv[2 + rank] == "kill":
    os.kill(os.getpid(), 9)
if sys.argv[2 + rank] == "wait":
    time.sleep(60)
sys.exit(int(sys.argv[2 + rank]))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "launched_by_a_test.py").write_text(MODULE)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # and put back afterwards
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return "launched_by_a_test"


@pytest.mark.parametrize(
    ("ends", "code", "failed"),
    [
        (("0", "0"), ExitCode.OK, None),
        (("wait", "4"), ExitCode.FAILED, (1, 4)),
        (("kill", "wait"), ExitCode.FAILED, (0, -9)),
        (("75", "75"), ExitCode.STOPPED, None),
        (("wait", "2"), ExitCode.USAGE, (1, 2)),
    ],
)
def test_two_processes(
    ends: tuple[str, str], code: ExitCode, failed: tuple[int, int] | None, module: str, tmp_path: Path
) -> None:
    before = set(child_processes(os.getpid()))
    found, failures = launch([module, str(tmp_path), *ends], 2)
    assert found is code
    assert [(one.rank, one.exit_code) for one in failures][:1] == ([] if failed is None else [failed])
    assert [(tmp_path / f"rank{rank}").read_text() for rank in (0, 1)] == ["3 2", "3 2"]
    assert set(child_processes(os.getpid())) <= before, "a process is left behind"
    assert not list((tmp_path / "temporary").iterdir()), "a folder is left behind"
