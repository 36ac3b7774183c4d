"""A real job of two gloo processes, of which one never enters the second collective."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from stoker.doctor.hang import ask
from stoker.doctor.hang.stacks import find_py_spy

PROGRAM = """
import os, sys, time
import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d

def read_shard():
    while True:
        time.sleep(0.1)

def main():
    place = "file://" + sys.argv[1] + "/store"
    dist.init_process_group("gloo", init_method=place, rank=int(os.environ["RANK"]), world_size=2)
    x = torch.ones(4)
    dist.all_reduce(x)
    if dist.get_rank() == 0:
        work = dist.barrier(async_op=True)
    if hasattr(c10d, "_dump_fr_trace"):
        open(f"{sys.argv[1]}/trace_{dist.get_rank()}", "wb").write(c10d._dump_fr_trace())
    open(f"{sys.argv[1]}/ready_{dist.get_rank()}", "w").close()
    if dist.get_rank() == 1:
        read_shard()
    dist.all_reduce(x)

main()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[bytes]]]:
    folder = tmp_path_factory.mktemp("job")
    (folder / "stuck.py").write_text(PROGRAM)
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(os.getpid()), "OMP_NUM_THREADS": "1",
                 "TORCH_FR_BUFFER_SIZE": "64", "TORCH_FR_DUMP_TEMP_FILE": f"{folder}/trace_"}  # fmt: skip
    ranks = [
        subprocess.Popen(
            [sys.executable, "stuck.py", str(folder)], cwd=folder, env={**os.environ, **variables, "RANK": rank}
        )
        for rank in ("0", "1")
    ]
    try:
        deadline = time.monotonic() + 100
        while not all((folder / f"ready_{rank}").exists() for rank in (0, 1)):
            assert time.monotonic() < deadline, "the job did not start"
            assert all(one.poll() is None for one in ranks), "the job has ended"
            time.sleep(0.1)
        time.sleep(0.5)  # rank 0 is on its way into the collective
        yield ranks
    finally:
        for one in ranks:
            one.kill()
            one.wait()


@pytest.mark.slow
def test_stacks_show_which_rank_is_missing_and_where_it_stands(job: list[subprocess.Popen[bytes]]) -> None:
    if find_py_spy() is None:
        pytest.skip("py-spy is not installed: stacks of a real job cannot be looked at")
    answer = ask(job[0].pid)
    if any("lets nobody look into it" in one for one in answer.not_seen):
        pytest.skip("this machine lets no process look into another: " + answer.not_seen[0])
    assert [look.rank.pid for look in answer.looks] == [job[0].pid, job[1].pid]
    first = next(one for one in answer.findings if one.cause == "rank-missing-from-collective")
    shown = [item.text for item in first.evidence if item.source == "py-spy"]
    assert re.match(rf"rank 1 \(pid {job[1].pid}\) stands in read_shard \(stuck.py:\d+\)", shown[0])
    assert re.match(rf"rank 0 \(pid {job[0].pid}\) waits in all_reduce, called from main \(stuck.py:\d+\)", shown[1])
    assert "read_shard" in answer.text()
    assert answer.to_json()["ranks"][1]["frames"]


@pytest.mark.slow
def test_without_py_spy_the_flight_recorder_still_tells(
    job: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoker.doctor.hang.stacks.find_py_spy", lambda: None)
    answer = ask(job[1].pid)
    (finding,) = answer.findings
    assert finding.cause == "rank-missing-from-collective"
    assert "rank 1 has entered up to number" in finding.evidence[0].text
    assert any("py-spy is not installed" in one for one in answer.not_seen)
    assert any("NCCL RAS" in one for one in answer.not_seen)
    assert [look.state for look in answer.looks] == ["sleeping", "sleeping"]
