"""How fast `stoker doctor log` reads: against `grep -F` with the same literals, in memory, from a cold start.

    python benchmarks/doctor_log_speed.py --megabytes 100 --json

Makes a mixed log of 64 ranks (training lines, NCCL, kernel, exporter samples and a few faults), keeps it in a
temporary folder and reads it with both programs on the same file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

RANKS = 64
GOAL_OF_GREP = 0.3
GOAL_MEMORY_MB = 300
GOAL_COLD_SECONDS = 0.4

_WORDS = [
    "loss",
    "step",
    "epoch",
    "throughput",
    "tokens",
    "samples",
    "iteration",
    "lr",
    "grad",
    "norm",
    "time",
    "eta",
    "memory",
    "saved",
    "loading",
    "shard",
    "worker",
    "started",
]
_LINES = (
    "[rank{r}]: 2026-11-30 12:{m:02d}:{s:02d},{n:03d} INFO trainer step {i} loss {f:.4f} lr 3.0e-04 "
    "grad_norm {g:.3f} tokens/s {t}",
    "node{h}:{p}:{p} [{d}] NCCL INFO Channel {c:02d}/0 : {r}[{d}] -> {q}[{d}] via P2P/CUMEM/read",
    "node{h}:{p}:{p} [{d}] NCCL INFO Trees [0] {r}/-1/-1->{q}->-1 [1] {q}/-1/-1->{r}->-1",
    "2026-11-30T12:{m:02d}:{s:02d}.{n:03d}Z node{h} kubelet[812]: pod worker-{r} volume {w} mounted {w2}",
    "Nov 30 12:{m:02d}:{s:02d} node{h} systemd[1]: Started Session {i} of user trainer.",
    'DCGM_FI_DEV_GPU_TEMP{{gpu="{d}",UUID="GPU-{i}",Hostname="node{h}"}} {c}',
    "{r}: {w} {w2} {w} {f:.6f} {w2} batch {i} of epoch {c}, {t} samples",
    '  File "/opt/venv/lib/python3.11/site-packages/trainer/{w}.py", line {i}, in {w2}',
)
_FAULTS = (
    "node3:91:99 [1] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-aB12cd to 33030532 "
    "bytes, error: No space left on device (28)",
    "Nov 30 12:00:01 node5 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=77, Ch 00000008, MMU Fault",
    "[rank7]: RuntimeError: CUDA error: an illegal memory access was encountered",
)


def write_log(path: Path, megabytes: int) -> None:
    """A log of about this size; lines do not repeat within the first hundred megabytes."""
    rng = random.Random(megabytes)
    with path.open("w", encoding="utf-8") as stream:
        for number in range(min(megabytes, 100) * 12_000):
            print(one_line(rng), file=stream)
            if number % 10_000 == 9_999:
                print(rng.choice(_FAULTS), file=stream)
    with path.open("rb") as first, path.open("ab") as more:
        for _ in range(megabytes // 100 - 1):
            first.seek(0)
            shutil.copyfileobj(_Limited(first, 100 * 1_000_000), more)


class _Limited:
    """The beginning of a file, to be copied to the end of the same file."""

    def __init__(self, inner: BinaryIO, size: int) -> None:
        self._inner, self._left = inner, size

    def read(self, size: int) -> bytes:
        data = self._inner.read(min(size, self._left))
        self._left -= len(data)
        return data


def one_line(rng: random.Random) -> str:
    """A line of a healthy run."""
    return rng.choice(_LINES).format(
        r=rng.randrange(RANKS),
        q=rng.randrange(RANKS),
        h=rng.randrange(8),
        d=rng.randrange(8),
        p=rng.randrange(10_000, 99_999),
        m=rng.randrange(60),
        s=rng.randrange(60),
        n=rng.randrange(1000),
        i=rng.randrange(10**6),
        f=rng.random() * 5,
        g=rng.random(),
        t=rng.randrange(10**5),
        c=rng.randrange(64),
        w=rng.choice(_WORDS),
        w2=rng.choice(_WORDS),
    )


def timed(command: list[str], repeats: int) -> tuple[float, int]:
    """The best wall time in seconds, and the largest peak of memory of these runs in kilobytes."""
    best, peak = float("inf"), 0
    for _ in range(repeats):
        start = time.perf_counter()
        with tempfile.TemporaryFile() as output:  # grep stops early if it writes to /dev/null
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL)
            _, _, usage = os.wait4(process.pid, 0)
        best = min(best, time.perf_counter() - start)
        peak = max(peak, usage.ru_maxrss)
    return best, peak


def measure(megabytes: int, repeats: int) -> list[dict[str, Any]]:
    """Every figure, with its goal."""
    from stoker.doctor.catalogue import load_catalogue

    doctor = [sys.executable, "-m", "stoker", "doctor", "log", "--format", "json"]
    figures: list[dict[str, Any]] = []

    def add(name: str, value: float, unit: str, goal: float | None, *, higher_is_better: bool) -> None:
        figures.append(
            {
                "name": name,
                "value": round(value, 4),
                "unit": unit,
                "goal": goal,
                "higher_is_better": higher_is_better,
            }
        )

    with tempfile.TemporaryDirectory() as folder:
        log, literals, page = Path(folder, "big.log"), Path(folder, "literals"), Path(folder, "page.log")
        write_log(log, megabytes)
        literals.write_bytes(b"\n".join(load_catalogue().literals) + b"\n")
        values = dict.fromkeys("rqhdpmsnifgtc", 1) | {"w": "a", "w2": "b"}
        page.write_text("\n".join([*(line.format_map(values) for line in _LINES * 6), *_FAULTS]))
        size = log.stat().st_size / 1e6
        doctor_seconds, doctor_kilobytes = timed([*doctor, str(log)], repeats)
        add("doctor log", size / doctor_seconds, "MB/s", None, higher_is_better=True)
        if shutil.which("grep"):
            grep_seconds, _ = timed(["grep", "-c", "-F", "-f", str(literals), str(log)], repeats)
            add("grep -c -F -f, same literals", size / grep_seconds, "MB/s", None, higher_is_better=True)
            add(
                "doctor log over grep",
                grep_seconds / doctor_seconds,
                "ratio",
                GOAL_OF_GREP,
                higher_is_better=True,
            )
        add(
            f"peak memory, {size:.0f} MB log",
            doctor_kilobytes / 1e3,
            "MB",
            GOAL_MEMORY_MB,
            higher_is_better=False,
        )
        cold, _ = timed([*doctor, str(page)], max(5, repeats))
        add("one page, from process start to end", cold, "s", GOAL_COLD_SECONDS, higher_is_better=False)
    return figures


def machine() -> dict[str, Any]:
    """Where it was measured."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    try:
        import ahocorasick_rs

        finder = f"ahocorasick_rs {getattr(ahocorasick_rs, '__version__', '')}".strip()
    except ImportError:
        finder = "re (ahocorasick_rs is not installed)"
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory_gb": round(memory),
        "python": platform.python_version(),
        "finder": finder,
        "own_peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3),
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.megabytes, options.repeats)
    if options.json:
        print(json.dumps({"machine": machine(), "figures": figures}, indent=1))
        return
    for figure in figures:
        goal = f" (goal {figure['goal']})" if figure["goal"] is not None else ""
        print(f"{figure['name']:40} {figure['value']:>10} {figure['unit']}{goal}")


if __name__ == "__main__":
    main()
