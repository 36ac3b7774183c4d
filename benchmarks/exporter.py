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
PEER = "nvitop-exporter: "
NAMES = ("", "at the peer's interval: ", PEER)
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


class Watched:
    """An exporter while it is measured."""

    def __init__(self, command: list[str], port: int, environment: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.taken: list[float] = []
        self.body = b""

    def begin(self) -> None:
        self._wait_for_gpus()
        for _ in range(WARM_UP):
            self.scrape()
        self.taken.clear()
        self.pids = family_of(self.process.pid)
        self.cpu, self.began = cpu_seconds(self.pids), time.perf_counter()

    def scrape(self) -> None:
        """As Prometheus does it: over the connection of before if the exporter kept it, else over a new one."""
        began = time.perf_counter()
        self.connection.request("GET", "/metrics")
        self.body = self.connection.getresponse().read()
        self.taken.append(time.perf_counter() - began)

    def _wait_for_gpus(self) -> None:
        deadline = time.monotonic() + 60
        while self.body.count(b"GPU-h100-") < GPUS:
            if self.process.poll() is not None:
                raise SystemExit(f"the exporter ended with exit code {self.process.returncode}")
            if time.monotonic() > deadline:
                raise SystemExit("the exporter showed no GPUs within 60 s")
            time.sleep(0.2)
            try:
                self.scrape()
            except OSError:
                self.connection.close()

    def cost(self) -> Cost:
        share = (cpu_seconds(self.pids) - self.cpu) / (time.perf_counter() - self.began)
        resident, proportional = memory_mib(self.pids)
        centiles = statistics.quantiles(self.taken, n=100, method="inclusive")
        lines = sum(not line.startswith(b"#") for line in self.body.splitlines())
        return Cost(1000 * centiles[49], 1000 * centiles[98], 100 * share, resident, proportional, lines)

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.wait(10)


def measure(watched: list[Watched], seconds: int) -> list[Cost]:
    """Scrape all in turn, once a second each, so that they meet the same disturbances."""
    try:
        for one in watched:
            one.begin()
        began = time.perf_counter()
        for number in range(seconds):
            time.sleep(max(0.0, began + number - time.perf_counter()))
            for one in watched:
                one.scrape()
        return [one.cost() for one in watched]
    finally:
        for one in watched:
            one.end()


def commands_of_all() -> dict[str, tuple[list[str], int] | None]:
    """Command and port of each exporter; None where it is not installed."""
    found: dict[str, tuple[list[str], int] | None] = {}
    for name, words in zip(NAMES, ([], ["--interval", "1"]), strict=False):
        port = free_port()
        command = [sys.executable, "-m", "stoker", "monitor", "serve", "--listen", f"127.0.0.1:{port}", *words]
        found[name] = command, port
    beside = Path(sys.executable).with_name(PEER.split(":")[0])
    program = str(beside) if beside.exists() else shutil.which(beside.name)
    port = free_port()
    words = ["--bind-address", "127.0.0.1", "--port", str(port)]
    found[PEER] = None if program is None else ([sys.executable, program, *words], port)
    return found


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
        commands = {name: command for name, command in commands_of_all().items() if command}
        watched = [Watched(words, port, environment) for words, port in commands.values()]
        costs = dict(zip(commands, measure(watched, options.seconds), strict=True))
    peer = costs.get(PEER)
    figures = [
        figure for name in NAMES for figure in figures_of(name, costs.get(name), peer, goals=name == NAMES[0])
    ]  # fmt: skip
    report(figures, machine("stoker", "nvidia-ml-py", "nvitop", "nvitop-exporter"), as_json=options.json)


if __name__ == "__main__":
    main()
