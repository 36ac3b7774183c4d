"""How long planning takes: 405B on 1,024 GPUs, 8B searched on five kinds, and a ResNet-50 verdict from a cold start.

Each is one command in a fresh process, with nothing kept from before. Memory is that of the command and of all
processes it starts, at their peak together; pages that they share are counted once (proc(5), smaps_rollup: Pss).

python benchmarks/plan_scale.py [--json] [--only WORD]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure, machine, report

LLAMA_8B = {
    "model_type": "llama", "name": "Llama-3.1-8B", "vocab_size": 128256, "hidden_size": 4096,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "max_position_embeddings": 8192,
}  # fmt: skip
KINDS = ("A100 SXM 80GB", "H100 SXM", "H200 SXM", "B200", "MI300X")
LLAMA_405B = {
    "model_type": "llama", "name": "Llama-3.1-405B", "vocab_size": 128256, "hidden_size": 16384,
    "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": 53248,
    "max_position_embeddings": 8192,
}  # fmt: skip
RESNET = ["memory", "resnet50", "--gpu", "A100 80GB", "--micro-batch", "256", "--precision", "bf16"]
MOST_MEMORY = 8 * 1024
"""MiB of a small machine."""
EVERY = 0.5
"""Seconds between two looks at the memory."""


def planned(arguments: list[str]) -> tuple[float, float]:
    """Wall seconds of one command of the planner, and the most MiB that it and its children held together.

    Raises:
        RuntimeError: It ended in an error.
    """
    with tempfile.TemporaryFile() as errors:
        started, most = time.perf_counter(), 0
        command = [sys.executable, "-W", "ignore", "-m", "stoker", "plan", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        while process.poll() is None:
            most = max(most, sum(map(held_kib, family(process.pid))))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(EVERY)
        took = time.perf_counter() - started
        if process.returncode not in (0, 1):  # 1: it does not fit, which is an answer
            errors.seek(0)
            raise RuntimeError(errors.read().decode()[-2000:])
    return took, most / 1024


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            for child in listed.read_text().split():
                yield from family(int(child))


def held_kib(pid: int) -> int:
    """Physical memory of a process, its part of what it shares; 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return 0


def large(folder: Path) -> list[str]:
    """Memory and speed of 405B on 1,024 GPUs."""
    return [
        "speed", config(folder, LLAMA_405B), "--gpu", "H100 SXM", "--gpus", "1024", "--layout", "fsdp2=16,tp=8,pp=8",
        "--precision", "bf16", "--checkpointing", "full", "--accumulation", "32", "--sequence", "8192",
    ]  # fmt: skip


def search(folder: Path) -> list[str]:
    """A search for 8B on one server of eight cards of each kind."""
    kinds = [word for kind in KINDS for word in ("--gpu", kind)]
    return ["search", config(folder, LLAMA_8B), "--sequence", "8192", *kinds]


def config(folder: Path, fields: dict[str, str | int]) -> str:
    """A Hugging Face configuration, written into a folder."""
    file = folder / str(fields["name"]) / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps(fields))
    return str(file)


def main() -> None:
    """Time all and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="One JSON object.")
    parser.add_argument("--only", default="", help="Only the commands whose figure has this word in its name.")
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, goal, arguments in (
            ("ResNet-50 cold", 10, RESNET),
            ("405B on 1024 GPUs", 90, large(folder)),
            ("search 8B on 5 kinds", 120, search(folder)),
        ):
            if options.only.lower() in title.lower():
                took, most = planned(arguments)
                figures += [
                    Figure(title, took, "s", goal, higher_is_better=False),
                    Figure(f"{title}, peak memory", most, "MiB", MOST_MEMORY, higher_is_better=False),
                ]
    report(figures, machine("stoker", "torch"), as_json=options.json)


if __name__ == "__main__":
    main()
