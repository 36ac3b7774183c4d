"""The scenario of the demo, as it is written in a file."""

from __future__ import annotations

from importlib.resources import files

import yaml
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Spell(_Part):
    """Something that happens again and again.

    Attributes:
        every: Seconds from one beginning to the next.
        lasts: Seconds that it lasts.
        into: Seconds for which it has been going on at time 0.
    """

    every: PositiveFloat
    lasts: PositiveFloat = Field(alias="for")
    into: float = 0.0

    def since(self, time: float) -> float | None:
        """Seconds since it began; None while it does not last."""
        within = (time + self.into) % self.every
        return within if within < self.lasts else None

    def lost(self, start: float, time: float) -> float:
        """Seconds of the time from `start` to `time` in which it lasted."""
        return self._sum(time) - self._sum(start)

    def _sum(self, time: float) -> float:
        whole, within = divmod(time + self.into, self.every)
        return whole * self.lasts + min(within, self.lasts)


class Throttled(Spell):
    """A GPU that the hardware slows down."""

    gpu: int


class Card(_Part):
    """The GPUs of the machine, all of one kind."""

    model: str
    count: PositiveInt
    memory_gib: PositiveFloat
    power_watts: PositiveFloat
    sm_mhz: PositiveFloat
    memory_mhz: PositiveFloat
    slowdown_celsius: PositiveFloat


class SimulatedRun(_Part):
    """A run; `started` in seconds before the beginning of the demo, as a negative number."""

    name: str
    folder: str
    task: str
    user: str
    slurm_job: str = ""
    gpus: tuple[int, ...]
    memory_gib: PositiveFloat
    started: float
    step_seconds: PositiveFloat
    total_steps: PositiveInt
    global_batch: PositiveInt
    micro_batch: PositiveInt
    data_wait: float
    mfu: float
    first_loss: float
    last_loss: float
    checkpoint_every: PositiveFloat
    hangs: Spell | None = None


class Forgotten(_Part):
    """A process that holds memory and computes nothing."""

    gpu: int
    user: str
    process: str
    memory_gib: PositiveFloat


class Scenario(_Part):
    """The machine and what happens on it."""

    host: str
    driver: str
    cpus: PositiveInt
    memory_gib: PositiveFloat
    gpu: Card
    runs: tuple[SimulatedRun, ...]
    throttled: Throttled
    forgotten: Forgotten


def read_scenario() -> Scenario:
    """The scenario that comes with stoker."""
    text = files("stoker.monitor.demo").joinpath("scenario.yaml").read_text(encoding="utf-8")
    return Scenario.model_validate(yaml.safe_load(text))
