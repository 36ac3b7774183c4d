"""Whose a process is."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from stoker.monitor.processes import describe, placed_in, run_of

ID = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("cgroup", "container", "job"),
    [
        (f"0::/system.slice/docker-{ID}.scope\n", ID[:12], ""),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope\n", ID[:12], ""),
        (f"12:memory:/docker/{ID}\n", ID[:12], ""),
        (f"0::/machine.slice/libpod-{ID}.scope/container\n", ID[:12], ""),
        ("0::/system.slice/slurmstepd.scope/job_417/step_0/user/task_0\n", "", "417"),
        ("4:cpuset:/slurm/uid_1000/job_98/step_batch\n", "", "98"),
        ("0::/user.slice/user-1000.slice/session-3.scope\n", "", ""),
        ("", "", ""),
    ],
)
def test_control_groups_name_container_and_job(cgroup: str, container: str, job: str) -> None:
    assert placed_in(cgroup) == (container, job)


def test_this_process_is_described() -> None:
    seen = describe(os.getpid(), 5)
    assert seen.pid == os.getpid()
    assert seen.process
    assert seen.user
    assert seen.memory_bytes == 5.0


def test_a_process_that_is_gone_keeps_its_number() -> None:
    seen = describe(2**22 + 1, None)
    assert (seen.process, seen.user, seen.memory_bytes) == ("", "", None)


def test_a_run_is_found_through_its_ancestors() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        assert run_of(child.pid, {os.getpid(): "/runs/a"}) == "/runs/a"
        assert run_of(child.pid, {child.pid: "/runs/b", os.getpid(): "/runs/a"}) == "/runs/b"
        assert run_of(child.pid, {2**22 + 1: "/runs/c"}) == ""
    finally:
        child.kill()
        child.wait()
