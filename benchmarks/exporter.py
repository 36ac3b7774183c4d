"""What watching eight GPUs costs: time of a scrape, CPU and memory, beside nvitop-exporter on the same driver.

The driver is the simulated one of tests/nvml_sim, whose calls take no time: what is measured is the exporters' own
work. Each is scraped once a second; CPU and memory are those of all of its processes. stoker runs with its defaults
(GPUs every 5 s) and once more with the peer's interval of 1 s, so that both ask the driver equally often.

python benchmarks/exporter.py [--json] [--seconds 120]
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from common import Figure, machine, report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.nvml_sim import build, compiler  # noqa: E402
from tests.nvml_sim import machine as simulated_machine  # noqa: E402

GPUS = 8
WARM_UP = 5
PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024**2


@dataclass(frozen=True)
class Cost:
    """What one exporter cost.

    Attributes:
        p50: Of a scrape, in ms; so is p99.
        cpu: Share of one core, in percent.
        memory: Resident memory of all processes together, in MiB: pages that they share count for each.
        proportional: The same with shared pages divided among those that share them.
        lines: Lines of an answer.
    """

    p50: float
    p99: float
    cpu: float
    memory: float
    proportional: float
    lines: int


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def family_of(pid: int) -> list[int]:
    """A process and all that descend from it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            parents.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for one in found:
        found += parents.get(one, [])
    return found


def cpu_seconds(pids: list[int]) -> float:
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS


def memory_mib(pids: list[int]) -> tuple[float, float]:
    resident = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE for pid in pids)
    rollups = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    shared = sum(int(line.split()[1]) * 1024 for text in rollups for line in text.splitlines() if line[:4] == "Pss:")
    return resident / MIB, shared / MIB


def scrape(port: int) -> tuple[float, bytes]:
    """Seconds of a scrape over a connection of its own, as a client without keep-alive makes it."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/metrics")
    body = connection.getresponse().read()
    taken = time.perf_counter() - began
    connection.close()
    return taken, body


def wait_for_gpus(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the exporter ended with exit code {process.returncode}")
        try:
            if scrape(port)[1].count(b"GPU-h100-") >= GPUS:
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the exporter showed no GPUs within 60 s")


def measure(command: list[str], port: int, environment: dict[str, str], seconds: int) -> Cost:
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_gpus(port, process)
        for _ in range(WARM_UP):
            scrape(port)
        pids = family_of(process.pid)
        cpu, began = cpu_seconds(pids), time.perf_counter()
        taken: list[float] = []
        body = b""
        for number in range(seconds):
            time.sleep(max(0.0, began + number - time.perf_counter()))
            duration, body = scrape(port)
            taken.append(duration)
        share = (cpu_seconds(pids) - cpu) / (time.perf_counter() - began)
        resident, proportional = memory_mib(pids)
    finally:
        process.terminate()
        process.wait(10)
    centiles = statistics.quantiles(taken, n=100, method="inclusive")
    lines = sum(not line.startswith(b"#") for line in body.splitlines())
    return Cost(1000 * centiles[49], 1000 * centiles[98], 100 * share, resident, proportional, lines)


def peer_command(port: int) -> list[str] | None:
    """nvitop-exporter beside this Python, or on the path; None where it is not installed."""
    beside = Path(sys.executable).with_name("nvitop-exporter")
    found = str(beside) if beside.exists() else shutil.which("nvitop-exporter")
    return found and [sys.executable, found, "--bind-address", "127.0.0.1", "--port", str(port)] or None


def figures_of(name: str, cost: Cost | None, peer: Cost | None = None, *, goals: bool = False) -> list[Figure]:
    def figure(what: str, value: float | None, unit: str, goal: float | None = None) -> Figure:
        return Figure(f"{name}{what}", value, unit, goal if goals else None, higher_is_better=False)

    p99_goal = min(10.0, peer.p99) if peer is not None else 10.0
    return [
        figure("scrape p99", cost and cost.p99, "ms", p99_goal),
        figure("scrape p50", cost and cost.p50, "ms"),
        figure("cpu share", cost and cost.cpu, "%", None if peer is None else peer.cpu),
        figure("resident memory", cost and cost.memory, "MiB", 60.0),
        figure("proportional memory", cost and cost.proportional, "MiB"),
        figure("series", cost and float(cost.lines), ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seconds", type=int, default=120, help="Scrapes, one a second, of each exporter.")
    options = parser.parse_args()
    if compiler() is None:
        raise SystemExit("there is no C compiler here to build the simulated driver with")
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        scenario = simulated_machine(library / "scenario.ini", "h100", GPUS)
        scenario.write()
        environment = {**os.environ, **scenario.environment(library), "STOKER_RUNS": str(library / "runs")}
        costs: dict[str, Cost | None] = {}
        for name, words in (("", []), ("at the peer's interval: ", ["--interval", "1"])):
            port = free_port()
            command = [sys.executable, "-m", "stoker", "monitor", "serve", "--listen", f"127.0.0.1:{port}", *words]
            costs[name] = measure(command, port, environment, options.seconds)
        port = free_port()
        command = peer_command(port)
        costs["nvitop-exporter: "] = command and measure(command, port, environment, options.seconds)
    peer = costs["nvitop-exporter: "]
    figures = [
        figure for name, cost in costs.items() for figure in figures_of(name, cost, peer, goals=name == "")
    ]  # fmt: skip
    report(figures, machine("stoker", "nvidia-ml-py", "nvitop", "nvitop-exporter"), as_json=options.json)


if __name__ == "__main__":
    main()
