from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.train.ranks import Ranks, first_host, read_ranks

TORCHRUN = {
    "RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "4", "MASTER_ADDR": "node1",
    "MASTER_PORT": "1234",
}  # fmt: skip
SLURM = {
    "SLURM_PROCID": "6", "SLURM_STEP_NUM_TASKS": "11", "SLURM_LOCALID": "2", "SLURM_NODEID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "4(x2),3", "SLURM_STEP_NODELIST": "gpu[07-08,11]", "SLURM_JOB_ID": "71234",
}  # fmt: skip


def test_nobody_started_this_process() -> None:
    assert read_ranks({}) is None
    assert read_ranks({"RANK": "0"}) is None
    assert read_ranks({"SLURM_PROCID": "0"}) is None, "a shell in an allocation is no job step of several tasks"
    assert read_ranks(SLURM | {"SLURM_STEP_NUM_TASKS": "1"}) is None


def test_torchrun() -> None:
    assert read_ranks(TORCHRUN) == Ranks(5, 8, 1, 4, "node1", 1234)
    assert read_ranks({"RANK": "1", "WORLD_SIZE": "2"}) == Ranks(1, 2, 1, 2, "127.0.0.1", 29500)


def test_slurm() -> None:
    assert read_ranks(SLURM) == Ranks(6, 11, 2, 4, "gpu07", 20000 + 71234 % 20000)
    last = read_ranks(SLURM | {"SLURM_NODEID": "2", "SLURM_PROCID": "10"})
    assert last is not None
    assert last.local_size == 3


def test_one_s_own_meeting_place_is_kept_under_slurm() -> None:
    found = read_ranks(SLURM | {"MASTER_ADDR": "head", "MASTER_PORT": "77"})
    assert found is not None
    assert (found.master_address, found.master_port) == ("head", 77)


def test_torchrun_inside_of_slurm_wins() -> None:
    assert read_ranks(SLURM | TORCHRUN) == read_ranks(TORCHRUN)


@pytest.mark.parametrize(
    "wrong",
    [TORCHRUN | {"RANK": "five"}, TORCHRUN | {"MASTER_PORT": ""}, SLURM | {"SLURM_STEP_NUM_TASKS": "x"},
     SLURM | {"SLURM_STEP_TASKS_PER_NODE": "4(y2)"}],
)  # fmt: skip
def test_variables_that_are_no_numbers(wrong: dict[str, str]) -> None:
    with pytest.raises(UserError, match="the launcher's environment variables cannot be read"):
        read_ranks(wrong)


@pytest.mark.parametrize(
    ("nodelist", "host"),
    [
        ("gpu1", "gpu1"),
        ("gpu1,gpu2", "gpu1"),
        ("gpu[003-006,010],login1", "gpu003"),
        ("gpu[010,003]", "gpu010"),
        ("a[1-2]-ib,b", "a1-ib"),
        ("rack[2-3]n[07-08]", "rack2n07"),
        ("10.0.0.1", "10.0.0.1"),
        ("", ""),
    ],
)
def test_the_first_host(nodelist: str, host: str) -> None:
    assert first_host(nodelist) == host
