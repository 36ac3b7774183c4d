from __future__ import annotations

import json
from pathlib import Path

from stoker.host.environment import (
    cpu_name,
    driver_version,
    memory_bytes,
    read_environment,
    relevant_variables,
)


def test_this_machine_is_plain_values() -> None:
    found = read_environment()
    assert json.loads(json.dumps(found)) == found
    assert found["cores"] >= 1
    assert {"torch", "numpy"} <= found["packages"].keys()


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    found = read_environment(tmp_path)
    assert (found["cpu"], found["memory_bytes"], found["nvidia_driver"]) == (None, None, None)


def test_files_of_a_server(tmp_path: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nmodel name\t: A CPU: fast\n\nmodel name : other\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       1024 kB\nMemFree: 3 kB\n")
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: NVIDIA UNIX x86_64  580.65.06  Release Build\n")
    found = read_environment(tmp_path)
    assert (found["cpu"], found["memory_bytes"], found["nvidia_driver"]) == ("A CPU: fast", 1048576, "580.65.06")


def test_odd_texts() -> None:
    assert cpu_name("") is None
    assert memory_bytes("MemTotal:") is None
    assert memory_bytes("MemTotal: many kB") is None
    assert driver_version("none here") is None


def test_variables_that_matter() -> None:
    environ = {"NCCL_DEBUG": "INFO", "HOME": "/root", "CUDA_VISIBLE_DEVICES": "0", "MY_CUDA_": "1"}
    assert relevant_variables(environ) == {"CUDA_VISIBLE_DEVICES": "0", "NCCL_DEBUG": "INFO"}
