"""`stoker monitor demo` as a person starts it."""

from __future__ import annotations

import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from tests.monitor.waiting import until


def _get(port: int, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def test_page_and_metrics_say_that_they_are_simulated_and_it_ends_when_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "stoker", "monitor", "demo", "--listen", f"127.0.0.1:{port}"]
    demo = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        metrics = until(lambda: _get(port, "/metrics"), 60)
        assert "\nstoker_exporter_simulated 1\n" in metrics
        assert metrics.count("\nstoker_gpu_power_watts{") == 8
        assert "Simulated" in _get(port, "/")
        assert "模拟数据" in _get(port, "/?lang=zh")
        assert _resident_mib(demo.pid) < 80
        demo.terminate()
        assert demo.wait(10) == 0
    finally:
        demo.kill()
        demo.communicate()


def test_a_port_in_use_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        command = [sys.executable, "-m", "stoker", "monitor", "demo", "--listen", f"127.0.0.1:{taken.getsockname()[1]}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "is in use" in done.stderr
    assert "Traceback" not in done.stderr
