"""Step time on this CPU after `stoker plan calibrate`: predicted and measured.

python benchmarks/plan_cpu_time.py [--json]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from plan_cpu import MODELS, measure, predict

from stoker.plan.calibrate import Profile, cpu_as_gpu
from stoker.plan.collectives import Network
from stoker.plan.hardware import find_link
from stoker.plan.roofline import Roofline
from stoker.plan.simulate import play

SIZES = {"cnn": 8, "wide_cnn": 16, "transformer": 8, "lstm": 16, "recommender": 512, "detector": 6}


def calibrated(queue) -> None:
    """Measure in a fresh process with one thread, as the models are measured."""
    import torch

    from stoker.plan.calibrate import measure as calibrate

    torch.set_num_threads(1)
    queue.put(calibrate("cpu"))


def profile_of_cpu() -> Profile:
    """The profile of this machine."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=calibrated, args=(queue,))
    process.start()
    profile = queue.get(timeout=300)
    process.join()
    return profile


def main() -> None:
    """Predict and measure every model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    gpu = cpu_as_gpu(profile_of_cpu())
    network = Network(find_link("gloo"), find_link("gloo"))
    rows = []
    for number, model in enumerate(MODELS):
        case = (model, SIZES[model], "none", "single")
        measured = measure(case, 29800 + number, steps=8, profile=False)
        predicted = play(predict(case), Roofline(gpu), network).step_seconds(1)
        rows.append({"model": model, "measured_ms": measured * 1e3, "predicted_ms": predicted * 1e3})
        if not arguments.json:
            print(f"{model:14} measured {measured * 1e3:8.1f} ms  predicted {predicted * 1e3:8.1f} ms"
                  f"  {predicted / measured - 1:+.0%}", flush=True)  # fmt: skip
    error = statistics.median(abs(r["predicted_ms"] / r["measured_ms"] - 1) for r in rows)
    figures = [{"name": "CPU step time median error", "value": error, "unit": "fraction", "goal": 0.2,
                "higher_is_better": False}]  # fmt: skip
    if arguments.json:
        machine = {"cpu": platform.machine(), "cores": os.cpu_count()}
        print(json.dumps({"machine": machine, "figures": figures, "rows": rows}))
    else:
        print(f"median error {error:.0%}")


if __name__ == "__main__":
    main()
