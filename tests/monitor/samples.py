"""Small samples for tests: a healthy machine, of which a test changes what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stoker.monitor.model import Exporter, Gpu, GpuProcess, Host, MachineSample, Run
from stoker.monitor.watch import Moment, Watch

GIB = 2.0**30
TIME = 1_790_000_000.0


def gpu(index: int = 0, **changed: Any) -> Gpu:
    """A GPU at work."""
    healthy = Gpu(
        gpu=str(index),
        uuid=f"GPU-{index}",
        model="NVIDIA H100 80GB HBM3",
        utilization_ratio=0.97,
        memory_used_bytes=60 * GIB,
        memory_total_bytes=80 * GIB,
        temperature_celsius=60,
        temperature_margin_celsius=27,
        slowdown_margin_celsius=-2,
        power_watts=600,
        power_limit_watts=700,
        power_default_limit_watts=700,
        sm_clock_hertz=1.9e9,
        sm_clock_max_hertz=1.98e9,
        pcie_link_width=16,
        pcie_link_width_max=16,
        processes=(GpuProcess(pid=100 + index, process="python", user="wei", memory_bytes=59 * GIB, run="/runs/a"),),
    )
    return replace(healthy, **changed)


def run(**changed: Any) -> Run:
    """A run that makes a step each second on GPU 0."""
    healthy = Run(
        run="a",
        folder="/runs/a",
        state="running",
        gpus=("0",),
        step=100,
        total_steps=1000,
        step_seconds=1.0,
        loss=2.5,
        samples_per_second=100,
        data_wait_ratio=0.01,
        since_step_seconds=0.4,
        activity="train",
    )
    return replace(healthy, **changed)


def machine(*gpus: Gpu, runs: tuple[Run, ...] = (), host: Host | None = None, **changed: Any) -> MachineSample:
    """A machine whose driver answers."""
    exporter = changed.pop("exporter", Exporter(version="0", driver="580.1", nvml_up=1))
    return MachineSample(
        time=TIME, hostname="node", exporter=exporter, host=host or Host(), gpus=gpus, runs=runs, **changed
    )


def moment(sample: MachineSample, *, seconds: int = 0) -> Moment:
    """What is known after a sample has not changed for some seconds."""
    watch = Watch()
    for second in range(0, seconds + 1, 5):
        watch.take(sample, second)
    assert watch.moment is not None
    return watch.moment
