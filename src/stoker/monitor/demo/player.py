"""Plays a scenario: the sample of a simulated machine at any time, the same each time it is asked for.

Nothing is kept between samples: every value is a function of the time, so that an hour of history is made in a
moment. Physics is only as good as a look at a screen needs: memory is constant, temperature and power follow load.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence

from stoker._version import __version__
from stoker.monitor.demo.scenario import Scenario, SimulatedRun
from stoker.monitor.model import (
    Disk,
    Exporter,
    Filesystem,
    Gpu,
    GpuProcess,
    Host,
    InfinibandPort,
    Interface,
    MachineSample,
    Run,
)

GIB = 2.0**30
FIRST_PID = 41200
IDLE_WATTS, IDLE_CELSIUS = 72.0, 31.0
HUNG_POWER = 0.21
"""Share of the power limit that a GPU takes whose kernels only wait."""


class Player:
    """A simulated machine.

    Args:
        scenario: What happens on it.
        begin: Unix time at which the scenario's time is 0.
    """

    def __init__(self, scenario: Scenario, *, begin: float) -> None:
        self._scenario = scenario
        self._begin = begin

    def sample(self, time: float) -> MachineSample:
        """The machine at a time in seconds from the beginning; earlier times are negative."""
        scenario = self._scenario
        return MachineSample(
            time=self._begin + time,
            hostname=scenario.host,
            simulated=True,
            exporter=Exporter(
                version=__version__,
                driver=scenario.driver,
                nvml_up=1,
                gpus_seen=scenario.gpu.count,
                start_time_seconds=self._begin,
            ),
            host=self._host(time),
            gpus=tuple(self._gpu(index, time) for index in range(scenario.gpu.count)),
            runs=tuple(self._run(run, time) for run in scenario.runs),
        )

    def _gpu(self, index: int, time: float) -> Gpu:
        card, run = self._scenario.gpu, self._run_on(index)
        load = _load(run, index, time)
        slowed = self._slowed(index, time) if load > 0 else 0.0
        hung = run is not None and _hung_for(run, time) is not None
        power = IDLE_WATTS + 6 * _noise(f"power{index}", time)
        if load > 0:
            share = HUNG_POWER if hung else 0.92 - 0.3 * slowed + 0.03 * _noise(f"power{index}", time)
            power = card.power_watts * share
        warmth = IDLE_CELSIUS + index % 4 + 44 * (power - IDLE_WATTS) / (card.power_watts - IDLE_WATTS)
        temperature = round(warmth + slowed * 23 + _noise(f"heat{index}", time))
        clock = 0.97 - 0.36 * slowed + 0.01 * _noise(f"clock{index}", time) if load > 0 else 0.17
        processes = self._processes(index)
        used = sum(process.memory_bytes or 0.0 for process in processes) + 0.5 * GIB
        total = card.memory_gib * GIB
        return Gpu(
            gpu=str(index),
            uuid=f"GPU-{zlib.crc32(b'demo%d' % index):08x}-0000-4000-8000-{index:012x}",
            model=card.model,
            pci=f"0000:{0x19 + 16 * index:02x}:00.0",
            sample_age_seconds=0.8,
            sample_duration_seconds=0.011,
            utilization_ratio=round(load, 2),
            sm_activity_ratio=round(0.02 if hung else load * 0.91, 3),
            tensor_activity_ratio=round(0.0 if hung else load * 0.47, 3),
            dram_activity_ratio=round(0.01 if hung else load * 0.52, 3),
            memory_used_bytes=used,
            memory_free_bytes=total - used,
            memory_total_bytes=total,
            temperature_celsius=temperature,
            temperature_margin_celsius=card.slowdown_celsius - temperature,
            slowdown_margin_celsius=-2,
            memory_temperature_celsius=temperature + 9,
            power_watts=round(power, 1),
            power_limit_watts=card.power_watts,
            power_default_limit_watts=card.power_watts,
            energy_joules=round(3.1e9 + 410 * (time + 90_000) + 1e7 * index),
            sm_clock_hertz=15e6 * round(card.sm_mhz * clock / 15),
            sm_clock_max_hertz=card.sm_mhz * 1e6,
            memory_clock_hertz=card.memory_mhz * 1e6,
            clock_event_active={
                "gpu_idle": float(load == 0),
                "sw_power_cap": float(load > 0 and not hung and not slowed),
                "hw_thermal_slowdown": float(slowed > 0.5),
            },
            pcie_link_generation=5,
            pcie_link_generation_max=5,
            pcie_link_width=16,
            pcie_link_width_max=16,
            pcie_receive_bytes=_counted(2.4e9 * (run is not None), run, time),
            pcie_transmit_bytes=_counted(0.7e9 * (run is not None), run, time),
            pcie_replays=0,
            nvlink_up={str(link): 1.0 for link in range(18)},
            ecc_mode=1,
            ecc_corrected_errors=0,
            ecc_uncorrected_errors=0,
            row_remap_pending=0,
            row_remap_failure=0,
            persistence_mode=1,
            mig_mode=0,
            processes=processes,
        )

    def _slowed(self, index: int, time: float) -> float:
        """How much a GPU is slowed down, from 0 to 1; heat comes and goes within a minute or two."""
        spell = self._scenario.throttled
        if index != spell.gpu:
            return 0.0
        since = spell.since(time)
        if since is not None:
            return min(1.0, since / 90)
        after = (time + spell.into) % spell.every - spell.lasts
        return max(0.0, 1 - after / 60)

    def _run_on(self, index: int) -> SimulatedRun | None:
        return next((run for run in self._scenario.runs if index in run.gpus), None)

    def _processes(self, index: int) -> tuple[GpuProcess, ...]:
        run, forgotten = self._run_on(index), self._scenario.forgotten
        if run is not None:
            process = GpuProcess(
                pid=FIRST_PID + 7 * index,
                process="python",
                user=run.user,
                memory_bytes=run.memory_gib * GIB,
                slurm_job=run.slurm_job,
                run=run.folder,
            )
            return (process,)
        if index == forgotten.gpu:
            memory = forgotten.memory_gib * GIB
            return (GpuProcess(pid=9817, process=forgotten.process, user=forgotten.user, memory_bytes=memory),)
        return ()

    def _run(self, run: SimulatedRun, time: float) -> Run:
        hung = _hung_for(run, time)
        worked = _worked(run, time)
        step = min(run.total_steps, int(worked / run.step_seconds))
        done = step / run.total_steps
        loss = run.last_loss + (run.first_loss - run.last_loss) * math.exp(-4 * done)
        slow = 1 + 0.38 * max((self._slowed(index, time) for index in run.gpus), default=0.0)
        rate = run.global_batch / run.step_seconds / slow * (1 + 0.015 * _noise(run.name, time))
        return Run(
            run=run.name,
            folder=run.folder,
            state="running",
            task=run.task,
            user=run.user,
            pid=FIRST_PID + 7 * run.gpus[0],
            gpus=tuple(str(index) for index in run.gpus),
            world_size=len(run.gpus),
            strategy="ddp",
            precision="bf16",
            slurm_job=run.slurm_job,
            activity="train",
            started_time=self._begin + run.started,
            step=step,
            total_steps=run.total_steps,
            progress_ratio=done,
            loss=loss * (1 + 0.02 * _noise(f"loss {run.name}", 20 * time)),
            samples=step * run.global_batch,
            samples_per_second=rate,
            step_seconds=run.step_seconds * slow,
            data_wait_ratio=max(0.0, run.data_wait * (1 + 0.3 * _noise(f"wait {run.name}", time))),
            mfu_ratio=run.mfu * rate * run.step_seconds / run.global_batch,
            micro_batch_size=run.micro_batch,
            since_step_seconds=worked % run.step_seconds if hung is None else hung,
            checkpoint_age_seconds=worked % run.checkpoint_every + (hung or 0.0),
        )

    def _host(self, time: float) -> Host:
        scenario = self._scenario
        uptime = time + 12 * 86400
        busy = uptime * 0.31 + 90 * math.sin(time / 700)
        memory = scenario.memory_gib * GIB
        return Host(
            cpus=scenario.cpus,
            cpu_seconds={"user": busy * scenario.cpus, "idle": (uptime - busy) * scenario.cpus},
            load1=40 + 3 * _noise("load", time),
            memory_total_bytes=memory,
            memory_available_bytes=memory * (0.71 + 0.01 * _noise("memory", time)),
            shm_size_bytes=memory / 2,
            shm_used_bytes=memory * (0.02 + 0.002 * _noise("shm", time)),
            boot_time_seconds=self._begin - 12 * 86400,
            gpus_on_bus=scenario.gpu.count,
            filesystems=(
                Filesystem(mount="/", size_bytes=1.9e12, available_bytes=1.2e12),
                Filesystem(mount="/data", size_bytes=3.0e13, available_bytes=1.1e13),
            ),
            disks=(
                Disk(device="nvme0n1", read_bytes=_wavy(1.9e9, time), written_bytes=_wavy(0.2e9, time), io_seconds=0),
            ),
            interfaces=(
                Interface(
                    device="eth0",
                    receive_bytes=_wavy(8e6, time),
                    transmit_bytes=_wavy(5e6, time),
                    errors=0,
                    dropped=0,
                    up=1,
                ),
            ),
            infiniband=(
                InfinibandPort(
                    device="mlx5_0",
                    port="1",
                    active=1,
                    rate_bytes_per_second=5e10,
                    receive_bytes=_wavy(2.1e9, time),
                    transmit_bytes=_wavy(2.1e9, time),
                ),
            ),
        )


def _load(run: SimulatedRun | None, index: int, time: float) -> float:
    """Share of time in which a kernel runs: 1 also while the run hangs."""
    if run is None or time < run.started:
        return 0.0
    if _hung_for(run, time) is not None:
        return 1.0
    return min(1.0, 1 - run.data_wait + 0.015 * _noise(f"load{index}", time))


def _hung_for(run: SimulatedRun, time: float) -> float | None:
    return run.hangs.since(time) if run.hangs else None


def _worked(run: SimulatedRun, time: float) -> float:
    """Seconds in which the run made progress."""
    passed = max(0.0, time - run.started)
    return passed - (run.hangs.lost(run.started, time) if run.hangs else 0.0)


def _counted(rate: float, run: SimulatedRun | None, time: float) -> float:
    """A counter that stands still while the run hangs."""
    return 1e12 + rate * (_worked(run, time) if run else 0.0)


def _wavy(rate: float, time: float) -> float:
    """A counter that grows now faster, now slower, and never falls."""
    return rate * (time + 1e6 + 0.5 * 300 * math.sin(time / 300))


def _noise(name: str, time: float) -> float:
    """A smooth wander between -1 and 1: three waves whose phases the name decides."""
    seed = zlib.crc32(name.encode())
    waves: Sequence[float] = (17.0, 53.0, 211.0)
    total = sum(math.sin(time / wave + (seed >> (8 * place)) % 256) for place, wave in enumerate(waves))
    return total / len(waves)
