"""What failures and checkpoints leave of the training time."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stoker.plan.hardware import GIB, overhead


@dataclass(frozen=True)
class Goodput:
    """Share of the time that trains.

    Attributes:
        checkpoint_gib: Size of a checkpoint: fp32 weights and optimizer states.
        save_seconds: Time that training stops for one.
        interval_seconds: Best time between checkpoints.
        hours_between_failures: Of the whole job.
        share: Share of the time that is not lost to saving, repeated work and restarts.
    """

    checkpoint_gib: float
    save_seconds: float
    interval_seconds: float
    hours_between_failures: float
    share: float


def goodput(
    parameters: int, states: float, gpus: int, *, storage_gbs: float = 2.0, gpu_hours: float | None = None
) -> Goodput:
    """Goodput of a job.

    Args:
        parameters: Of the model.
        states: fp32 values that the optimizer keeps per parameter, on average.
        gpus: That it runs on.
        storage_gbs: GB/s that all ranks together write.
        gpu_hours: GPU-hours from one failure to the next; None for what Llama 3 saw (overheads.csv).

    Interval by Young and Daly: `sqrt(2 d M)` for a checkpoint of d seconds and a mean time M between failures
    (Daly 2006, doi 10.1016/j.future.2004.11.016); lost are the saving, half an interval and the restart.
    """
    nbytes = 4.0 * (1 + states) * parameters
    save = max(nbytes / (storage_gbs * 1e9), 0.1)
    between = (gpu_hours or overhead("gpu_hours_between_failures")) * 3600 / gpus
    interval = math.sqrt(2 * save * between)
    restart = overhead("restart_minutes") * 60
    lost = save / interval + (interval / 2 + restart) / between
    return Goodput(nbytes / GIB, save, interval, between / 3600, max(0.0, 1 - lost))
