"""A simulated scrape target, and a webhook that keeps what it is told: both run in threads of the test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GPU = 'gpu="{n}", uuid="GPU-0000000{n}", model="NVIDIA A100-SXM4-80GB"'
RUN = 'run="digits", folder="/runs/digits"'


class Endpoint(ThreadingHTTPServer):
    """Serves what stoker's exporter would: two GPUs and a run, of which a test may change each series."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Metrics)
        self.address = f"127.0.0.1:{self.server_port}"
        self.began = time.monotonic()
        self.changed: dict[str, float | None] = {}
        """By series with its labels; None takes it away."""

    def text(self) -> str:
        """The series as they stand now."""
        values = self._healthy() | self.changed
        return "".join(f"{series} {value}\n" for series, value in values.items() if value is not None)

    def _healthy(self) -> dict[str, float | None]:
        passed = time.monotonic() - self.began
        values: dict[str, float | None] = {"stoker_exporter_nvml_up": 1}
        for number in range(2):
            labels = GPU.format(n=number)
            of_gpu = {
                "info": 1, "lost": 0, "sample_age_seconds": 1, "utilization_ratio": 0.9, "sm_activity_ratio": 0.7,
                "tensor_activity_ratio": 0.4, "dram_activity_ratio": 0.5, "memory_used_bytes": 50e9,
                "memory_free_bytes": 30e9, "temperature_celsius": 60, "temperature_margin_celsius": 25,
                "memory_temperature_celsius": 55, "power_watts": 380, "power_limit_watts": 400,
                "power_default_limit_watts": 400, "energy_joules_total": 380 * passed, "sm_clock_hertz": 1.4e9,
                "pcie_link_generation": 4, "pcie_link_generation_max": 4, "pcie_link_width": 16,
                "pcie_link_width_max": 16, "pcie_transmit_bytes_total": 1e9 * passed,
                "pcie_receive_bytes_total": 2e9 * passed, "ecc_uncorrected_errors_total": 0, "row_remap_failure": 0,
                "row_remap_pending": 0, "recovery_action": 0,
            }  # fmt: skip
            values |= {f"stoker_gpu_{name}{{{labels}}}": value for name, value in of_gpu.items()}
            values[f'stoker_gpu_clock_event_active{{{labels}, reason="hw_thermal_slowdown"}}'] = 0
            values[f'stoker_gpu_xid_last_timestamp_seconds{{{labels}, xid="43"}}'] = time.time() - 60
            for link in range(2):
                of_link = f'{labels}, link="{link}"'
                values[f"stoker_gpu_nvlink_up{{{of_link}}}"] = 1
                values[f"stoker_gpu_nvlink_transmit_bytes_total{{{of_link}}}"] = 5e9 * passed
                values[f"stoker_gpu_nvlink_receive_bytes_total{{{of_link}}}"] = 5e9 * passed
            values[f'stoker_run_gpu{{{RUN}, gpu="{number}"}}'] = 1
        return values | self._host(passed) | self._run()

    def _host(self, passed: float) -> dict[str, float | None]:
        return {
            "stoker_host_cpus": 2,
            'stoker_host_cpu_seconds_total{mode="user"}': passed,
            "stoker_host_memory_available_bytes": 3e9,
            "stoker_host_memory_total_bytes": 4e9,
            "stoker_host_shm_used_bytes": 1e9,
            "stoker_host_shm_size_bytes": 2e9,
            'stoker_host_filesystem_available_bytes{mount="/"}': 5e10,
            'stoker_host_filesystem_size_bytes{mount="/"}': 1e11,
        }

    def _run(self) -> dict[str, float | None]:
        of_run = {
            "info": 1, "step": 100, "loss": 2.0, "samples_per_second": 900, "step_seconds": 0.5,
            "data_wait_ratio": 0.02, "mfu_ratio": 0.4, "progress_ratio": 0.1, "since_step_seconds": 0.3,
            "checkpoint_age_seconds": 60,
        }  # fmt: skip
        values: dict[str, float | None] = {f"stoker_run_{name}{{{RUN}}}": value for name, value in of_run.items()}
        values[f'stoker_run_state{{{RUN}, state="running"}}'] = 1
        return values


class Webhook(ThreadingHTTPServer):
    """Keeps each notification of Alertmanager."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Notifications)
        self.url = f"http://127.0.0.1:{self.server_port}/"
        self.got: list[dict[str, Any]] = []

    def alerts(self, status: str = "firing") -> dict[str, dict[str, Any]]:
        """What was told, by the alert's name, the latest first to count."""
        return {a["labels"]["alertname"]: a for one in self.got for a in one["alerts"] if a["status"] == status}

    def every(self, name: str) -> list[dict[str, Any]]:
        """All that was told of one alert."""
        return [a for one in self.got for a in one["alerts"] if a["labels"]["alertname"] == name]


class _Metrics(BaseHTTPRequestHandler):
    server: Endpoint

    def do_GET(self) -> None:
        body = self.server.text().encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


class _Notifications(BaseHTTPRequestHandler):
    server: Webhook

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Serve until the end of the `with`."""
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def until(holds: Callable[[], Any], seconds: float) -> Any:
    """What `holds` says once it is true.

    Raises:
        AssertionError: It was not within the time.
    """
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.2)
    return found
