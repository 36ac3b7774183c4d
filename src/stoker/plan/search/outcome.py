"""What a search found: options beside each other, which of them no other beats, and which to take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from stoker.plan.layout import Layout
from stoker.plan.memory import Verdict
from stoker.plan.search.space import Servers, Shape
from stoker.plan.speed import Range


@dataclass(frozen=True)
class Goal:
    """What is to be done.

    Attributes:
        global_batch: Samples per step over all GPUs.
        samples: To train on in all.
        deadline_hours: In which it must be done; None for as fast as can be.
    """

    global_batch: int
    samples: float
    deadline_hours: float | None = None


@dataclass(frozen=True)
class Option:
    """One layout on some servers, planned from a full trace.

    Attributes:
        servers: The servers.
        layout: How ranks are arranged.
        shape: How each rank works.
        verdict: Whether it fits.
        device_bytes: Memory of the GPU that needs most.
        step_seconds: Time of a step.
        samples_per_second: Over all GPUs.
        hours: For the whole goal, with what failures and checkpoints cost.
        worst_hours: The same at the slow end of the range.
    """

    servers: Servers
    layout: Layout
    shape: Shape
    verdict: Verdict
    device_bytes: float
    step_seconds: Range
    samples_per_second: float
    hours: float
    worst_hours: float

    @property
    def fits(self) -> bool:
        """Whether it can run."""
        return self.verdict != "does not fit"

    @property
    def plain(self) -> bool:
        """Whether every GPU holds the whole model: one GPU alone, or DDP."""
        return self.layout.shard == self.layout.tensor == self.layout.pipeline == 1

    @property
    def gpu_hours(self) -> float:
        """Hours times GPUs."""
        return self.hours * self.servers.gpus

    @property
    def cost(self) -> float | None:
        """Price of the GPU hours; None without a price."""
        return None if self.servers.price is None else self.gpu_hours * self.servers.price

    @property
    def energy_kwh(self) -> float | None:
        """Of the GPUs, at their board power all the time; None where that is unknown."""
        watts = self.servers.gpu.tdp_watts
        return None if watts is None else self.gpu_hours * watts / 1000

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "gpu": self.servers.gpu.name,
            "servers": self.servers.count,
            "gpus": self.servers.gpus,
            "layout": str(self.layout),
            **asdict(self.shape),
            "verdict": self.verdict,
            "device_bytes": self.device_bytes,
            "usable_bytes": self.servers.gpu.memory_bytes,
            "step_seconds": asdict(self.step_seconds),
            "samples_per_second": self.samples_per_second,
            "hours": self.hours,
            "worst_hours": self.worst_hours,
            "gpu_hours": self.gpu_hours,
            "energy_kwh": self.energy_kwh,
            "cost": self.cost,
            "runs_in_train": self.plain,
        }


@dataclass(frozen=True)
class Found:
    """The result of a search.

    Attributes:
        options: All that were traced in full, those that do not fit too.
        tried: Layouts and shapes that were estimated.
        notes: What was left out, and why.
    """

    options: tuple[Option, ...]
    tried: int
    notes: tuple[str, ...]


def expense(option: Option) -> float:
    """What an option costs: money where there are prices, else GPU hours."""
    return option.gpu_hours if option.cost is None else option.cost


def best(options: Sequence[Option], goal: Goal) -> Option | None:
    """The fastest that fits; with a deadline the cheapest that meets it, or the fastest where none does."""
    fitting = [option for option in options if option.fits]
    deadline = goal.deadline_hours
    if deadline is not None:
        in_time = [option for option in fitting if option.hours <= deadline]
        if in_time:
            priced = all(option.cost is not None for option in in_time)
            return min(in_time, key=lambda one: (expense(one) if priced else one.gpu_hours, one.hours))
    return min(fitting, key=lambda one: (one.hours, one.device_bytes), default=None)


def unbeaten(options: Sequence[Option]) -> list[Option]:
    """Options that fit and that no other beats in time, memory, GPU hours and energy at once (Pareto)."""
    fitting = [option for option in options if option.fits]
    return [one for one in fitting if not any(_beats(other, one) for other in fitting)]


def _beats(one: Option, other: Option) -> bool:
    own, others = _figures(one), _figures(other)
    return own != others and all(a <= b for a, b in zip(own, others, strict=True))


def _figures(option: Option) -> tuple[float, float, float, float]:
    """Smaller is better in all; unknown energy beats nobody and is beaten by nobody on it."""
    energy = option.energy_kwh
    return option.hours, option.device_bytes, option.gpu_hours, float("inf") if energy is None else energy
