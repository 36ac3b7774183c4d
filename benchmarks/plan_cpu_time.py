"""Step time on this CPU after `stoker plan calibrate`: predicted and measured; for `plan_cpu.py`."""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from typing import Any

from plan_cpu_train import Case, Ranks

from stoker.plan.calibrate import Profile, cpu_as_gpu
from stoker.plan.collectives import Network
from stoker.plan.hardware import find_link
from stoker.plan.roofline import Roofline
from stoker.plan.simulate import play


def time_rows(traces: Mapping[Case, Any]) -> list[dict[str, Any]]:
    """Measured and predicted milliseconds of a step, for every case that was traced."""
    with Ranks() as ranks:
        measured = {case: ranks.step_seconds(case) for case in traces}
    roofline = Roofline(cpu_as_gpu(profile_of_cpu()))
    network = Network(find_link("gloo"), find_link("gloo"))
    rows: list[dict[str, Any]] = []
    for case, traced in traces.items():
        predicted = play(traced, roofline, network).step_seconds(traced.steps - 1)
        times = {"measured_ms": measured[case] * 1e3, "predicted_ms": predicted * 1e3}
        rows.append({**case._asdict(), **times, "error": predicted / measured[case] - 1})
    return rows


def profile_of_cpu() -> Profile:
    """The profile of this machine, measured in a fresh process with one thread, as the models are."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_calibrate, args=(queue,))
    process.start()
    profile = queue.get(timeout=300)
    process.join()
    return profile


def _calibrate(queue: Any) -> None:
    import torch

    from stoker.plan.calibrate import measure

    torch.set_num_threads(1)
    queue.put(measure("cpu"))
