"""How long planning takes: 405B on 1,024 GPUs, 8B searched on five kinds, and a ResNet-50 verdict from a cold start.

python benchmarks/plan_scale.py [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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


def timed(arguments: list[str]) -> tuple[float, str]:
    """Wall seconds and output of one command of the planner."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "stoker", "plan", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr[-2000:])
    return time.perf_counter() - started, done.stdout


def main() -> None:
    """Time all and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    small, first = timed(["memory", "resnet50", "--gpu", "A100 80GB", "--micro-batch", "256", "--precision", "bf16"])
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(LLAMA_405B))
        large, second = timed(
            ["speed", str(config), "--gpu", "H100 SXM", "--gpus", "1024", "--layout", "fsdp2=16,tp=8,pp=8",
             "--precision", "bf16", "--checkpointing", "full", "--accumulation", "32", "--sequence", "8192"]
        )  # fmt: skip
        config.write_text(json.dumps(LLAMA_8B))
        kinds = [word for kind in KINDS for word in ("--gpu", kind)]
        search, third = timed(["search", str(config), "--sequence", "8192", *kinds])
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
    figures = [
        {"name": "ResNet-50 verdict", "value": small, "unit": "s", "goal": 10, "higher_is_better": False},
        {"name": "405B on 1,024 GPUs", "value": large, "unit": "s", "goal": 90, "higher_is_better": False},
        {"name": "search 8B on 5 kinds", "value": search, "unit": "s", "goal": 120, "higher_is_better": False},
        {"name": "largest process", "value": memory, "unit": "GiB", "goal": 8, "higher_is_better": False},
    ]
    if arguments.json:
        print(json.dumps({"machine": {"cpu": platform.machine(), "cores": os.cpu_count()}, "figures": figures}))
        return
    print(first, second, third, sep="\n")
    for figure in figures:
        print(f"{figure['name']:24} {figure['value']:.1f} {figure['unit']} (goal {figure['goal']})")


if __name__ == "__main__":
    main()
