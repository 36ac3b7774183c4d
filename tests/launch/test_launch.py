from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stoker.errors import ExitCode, RunError, UserError
from stoker.launch.local import RankFailure, child_processes, launch, threads_per_process, torchrun_line
from stoker.launch.outcome import failure_of


def test_the_torchrun_line() -> None:
    line = torchrun_line(["stoker", "train", "run.yaml", "seed=3"], 4)
    assert line == "torchrun --standalone --nproc-per-node 4 -m stoker train run.yaml seed=3"


@pytest.mark.parametrize(
    ("cores", "processes", "environ", "threads"),
    [(16, 4, {}, 4), (2, 4, {}, 1), (16, 3, {}, 5), (16, 4, {"OMP_NUM_THREADS": "2"}, 2)],
)
def test_cores_are_shared(cores: int, processes: int, environ: dict[str, str], threads: int) -> None:
    assert threads_per_process(cores, processes, environ) == threads


def failure(rank: int, code: int) -> RankFailure:
    return RankFailure(rank, code, time=rank)


def written(folder: Path, kind: str) -> Path:
    file = folder / "failure.json"
    file.write_text(
        json.dumps({"rank": 1, "step": 7, "kind": kind, "message": "it broke", "traceback": "Trace\n", "time": 1})
    )
    return file


def test_a_known_failure_is_a_sentence(tmp_path: Path) -> None:
    told = failure_of(written(tmp_path, "RunError"), [failure(1, 1), failure(0, 1)])
    assert type(told) is RunError
    assert str(told) == "it broke"
    assert type(failure_of(written(tmp_path, "UserError"), [failure(1, 2)])) is UserError


def test_a_bug_keeps_its_traceback(tmp_path: Path) -> None:
    told = str(failure_of(written(tmp_path, "ValueError"), [failure(1, 1)]))
    assert told == "rank 1, after step 7: ValueError: it broke\nTrace"


def test_a_killed_rank_comes_before_what_others_say_of_it(tmp_path: Path) -> None:
    told = str(failure_of(written(tmp_path, "RuntimeError"), [failure(0, 1), failure(2, -signal.SIGKILL)]))
    assert told.startswith("rank 2 was ended by SIGKILL: ")
    assert "dmesg" in told
    assert "shm-size" in str(failure_of(written(tmp_path, "RuntimeError"), [failure(0, -signal.SIGBUS)]))


def test_ranks_that_left_no_word(tmp_path: Path) -> None:
    assert "rank 1 with 3" in str(failure_of(tmp_path / "failure.json", [failure(1, 3)]))


def test_child_processes_are_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        assert child.pid in child_processes(os.getpid())
    finally:
        child.kill()
        child.wait()
    assert child.pid not in child_processes(os.getpid())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code", "ranks"),
    [
        ("pass", ExitCode.OK, []),
        ("sys.exit(75)", ExitCode.STOPPED, []),
        ("sys.exit(2)", ExitCode.USAGE, [0, 1]),
        ("sys.exit(3 if rank else 0)", ExitCode.FAILED, [1]),
    ],
)
def test_processes_really_start(
    body: str, code: ExitCode, ranks: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text(
        "import os, sys, pathlib\n"
        "rank = int(os.environ['RANK'])\n"
        "assert os.environ['WORLD_SIZE'] == '2'\n"
        "pathlib.Path(sys.argv[1], f'rank{rank}').touch()\n" + body + "\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found, failures = launch(["program", str(tmp_path)], 2)
    assert found == code
    assert {one.rank for one in failures} <= set(ranks)
    assert bool(failures) == bool(ranks)
    assert (tmp_path / "rank0").exists()
    assert (tmp_path / "rank1").exists()
