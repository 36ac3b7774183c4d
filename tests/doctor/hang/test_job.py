"""Finding the ranks of a job, in a made-up /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stoker.doctor.hang.job import cpu_seconds, descendants, ranks_of, state_of, waits_in
from stoker.errors import UserError


def process(
    proc: Path, pid: int, parent: int, exe: str = "/usr/bin/python3.12", state: str = "S", **environ: str
) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "status").write_text(f"Name:\tpython\nState:\t{state} (x)\nPPid:\t{parent}\n")
    (folder / "environ").write_bytes("\0".join(f"{name}={value}" for name, value in environ.items()).encode())
    (folder / "exe").symlink_to(exe)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A launcher (10) with two ranks, of which one has a data worker and one a wrapper; and another job."""
    job = {"MASTER_ADDR": "n1", "MASTER_PORT": "29500", "WORLD_SIZE": "4", "TORCHELASTIC_RUN_ID": "a"}
    process(tmp_path, 10, 1, PATH="/bin")
    process(tmp_path, 11, 10, RANK="0", **job)
    process(tmp_path, 12, 10, exe="/usr/bin/timeout", RANK="1", **job)
    process(tmp_path, 13, 12, RANK="1", **job)
    process(tmp_path, 14, 11, RANK="0", **job)
    process(tmp_path, 20, 1, RANK="0", **(job | {"TORCHELASTIC_RUN_ID": "b"}))
    process(tmp_path, 30, 1, PATH="/bin")
    return tmp_path


@pytest.mark.parametrize("pid", [10, 11, 13, 14])
def test_the_ranks_are_found_from_any_process_of_the_job(pid: int, proc: Path) -> None:
    assert [(one.rank, one.pid, one.world_size) for one in ranks_of(pid, proc)] == [(0, 11, 4), (1, 13, 4)]


def test_a_process_without_a_launcher_is_alone(proc: Path) -> None:
    (only,) = ranks_of(30, proc)
    assert (only.pid, only.rank, only.name) == (30, None, "process 30")


def test_descendants_of_all_generations(proc: Path) -> None:
    assert descendants(10, proc) == [11, 12, 13, 14]


def test_a_process_that_is_not_there(proc: Path) -> None:
    with pytest.raises(UserError, match="there is no process 99"):
        ranks_of(99, proc)


def test_what_the_kernel_says_of_this_process() -> None:
    pid = os.getpid()
    assert state_of(pid) == "running"
    used = cpu_seconds(pid)
    assert used is not None
    assert used > 0
    assert isinstance(waits_in(pid), str)
    assert state_of(2**22 + 1) == "gone"
    assert cpu_seconds(2**22 + 1) is None
