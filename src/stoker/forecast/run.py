"""What the planner says of a run file: memory per process, step time, verdict."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.errors import UserError
from stoker.facts.gpus import find_gpu as recognise
from stoker.plan.cpu import this_cpu
from stoker.plan.hardware import Gpu, find_gpu
from stoker.plan.layout import Layout, parse_layout
from stoker.plan.memory import MemoryPlan, plan_memory
from stoker.plan.speed import Conditions, SpeedPlan, plan_speed
from stoker.plan.text import memory_text, speed_text
from stoker.plan.trace.run import Source
from stoker.train.spec import LoadedSpec, RunSpec

FORMAT = 1
"""Of `plan.json`. Rises when a key changes its meaning or goes; new keys may come without."""
MOST_PER_MACHINE = 8
"""GPUs of one server."""


@dataclass(frozen=True)
class Forecast:
    """What is expected of a run.

    Attributes:
        gpu: Of each process; a CPU's share where there is none.
        layout: How the processes are arranged.
        memory: Of one process.
        speed: None where the step could not be traced.
        why_no_speed: The reason then.
    """

    gpu: Gpu
    layout: Layout
    memory: MemoryPlan
    speed: SpeedPlan | None
    why_no_speed: str = ""

    def to_json(self) -> dict[str, Any]:
        """The content of `plan.json`."""
        return {
            "format": FORMAT,
            "device": self.gpu.name,
            "kind": "cpu" if self.gpu.on_cpu else "gpu",
            "processes": self.layout.ranks,
            "layout": str(self.layout),
            "memory": self.memory.to_json(),
            "speed": None if self.speed is None else self.speed.to_json(),
            "why_no_speed": self.why_no_speed,
        }

    def __str__(self) -> str:
        held = memory_text(self.memory, self.gpu, self.layout)
        if self.speed is None:
            return f"{held}\nthe step time is unknown: {self.why_no_speed}"
        return f"{held}\n{speed_text(self.speed, self.memory, self.gpu, self.layout)}"


def forecast(loaded: LoadedSpec, gpu: Gpu, processes: int, conditions: Conditions | None = None) -> Forecast:
    """Plan a run over so many processes, one GPU or share of the CPU each.

    Raises:
        UserError: What `stoker train` would refuse, or a strategy that cannot be planned.
        RunError: The model cannot even be built on fake tensors.
    """
    layout = run_layout(loaded.spec, processes)
    memory, reply = plan_memory(run_source(loaded, gpu, layout), layout, gpu)
    if reply.failure is not None:
        return Forecast(gpu, layout, memory, None, reply.failure.message)
    return Forecast(gpu, layout, memory, plan_speed(reply.traces, layout, gpu, conditions))


def run_source(loaded: LoadedSpec, gpu: Gpu, layout: Layout) -> Source:
    """How the process that traces makes the workload of a run file: plain values only."""
    arguments = {
        "spec": loaded.spec.model_dump(mode="json"),
        "folder": str(loaded.folder),
        "device": "cpu" if gpu.on_cpu else "cuda",
        "capability": gpu.capability,
        "world_size": layout.data_ranks,
        "local_size": min(layout.ranks, MOST_PER_MACHINE),
    }
    return Source("stoker.forecast.workload:run_workload", arguments)


def run_layout(spec: RunSpec, processes: int | None, asked: str = "") -> Layout:
    """The layout that a run takes on so many GPUs, or another one that is asked for.

    Raises:
        UserError: The strategy is not for so many processes, or cannot be planned.
    """
    if asked:
        return parse_layout(asked, processes)
    strategy, count = spec.parallel.strategy, processes or 1
    if strategy == "dp":
        raise UserError("parallel.strategy: dp is not planned: write auto, one process per GPU, which is faster")
    if strategy == "single" and count > 1:
        raise UserError(f"parallel.strategy: single is for one process, but {count} are asked for; write auto")
    return Layout(replicate=count)


def device_here(processes: int, *, say: Callable[[str], None] = lambda _: None) -> Gpu:
    """What this machine trains on: its GPU by name, or each process's share of the CPU.

    Raises:
        UserError: The GPU is in no table, or there is no torch to ask.
    """
    if importlib.util.find_spec("torch") is None:
        raise UserError("planning a run needs torch, which is not installed here: pip install 'stoker[train]'")
    import torch

    from stoker.train.devices import device_count, device_name

    if device_count() == 0:
        return this_cpu(processes, say=say)
    return find_gpu(recognise(device_name(torch.device("cuda", 0))).model)


def is_run_file(target: str) -> bool:
    """Whether a target of the planner is a run file."""
    return Path(target).suffix in (".yaml", ".yml")
