"""The learning rate as a pure function of how far the run is: nothing to save, nothing to replay."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stoker.train.spec.model import ScheduleSection
from stoker.train.spec.quantity import Quantity


@dataclass(frozen=True)
class Schedule:
    """A learning-rate schedule with its lengths settled.

    Attributes:
        section: What was asked for.
        steps_per_epoch: Steps that one pass over the data makes.
        total_steps: Length of the run in steps; None where time or tokens end it.
    """

    section: ScheduleSection
    steps_per_epoch: int
    total_steps: int | None

    def factor(self, step: int, fraction: float) -> float:
        """What the peak learning rate is multiplied with.

        Args:
            step: The step about to be made, from 1.
            fraction: Share of the run that is done, from 0 to 1; used where the length in steps is unknown.

        Returns:
            1 at the peak; a linear or cosine schedule reaches `final` when the last step has been made.
        """
        rising = self._warmup_factor(step, fraction)
        if rising < 1:
            return rising
        name, final = self.section.name, self.section.final
        if name == "constant":
            return 1.0
        if name == "step":
            return self.section.drop_factor ** ((step - 1) // self.steps(self.section.drop_every))
        falling = self._falling(step, fraction)
        shape = falling if name == "linear" else (1 - math.cos(math.pi * falling)) / 2
        return 1 - (1 - final) * shape

    def steps(self, quantity: Quantity) -> int:
        """A length in steps or epochs, in steps; at least 1."""
        per_unit = self.steps_per_epoch if quantity.unit == "epochs" else 1
        return max(1, int(quantity.amount) * per_unit)

    def _warmup_share(self) -> float:
        """Length of the warm-up as a share of the run, where it is given so."""
        warmup = self.section.warmup
        return warmup.amount / 100 if warmup.unit == "percent" else 0.0

    def _warmup_steps(self) -> int:
        warmup = self.section.warmup
        if warmup.unit == "percent":
            return round(self._warmup_share() * (self.total_steps or 0))
        return self.steps(warmup) if warmup.amount else 0

    def _warmup_factor(self, step: int, fraction: float) -> float:
        if self.total_steps is None and self._warmup_share():
            return min(1.0, fraction / self._warmup_share())
        return min(1.0, step / (self._warmup_steps() + 1))

    def _falling(self, step: int, fraction: float) -> float:
        """How far the fall is: 0 in the first step after the warm-up, 1 when the last step has been made."""
        if self.total_steps is None:
            share = self._warmup_share()
            return min(1.0, max(0.0, (fraction - share) / max(1e-9, 1 - share)))
        done = step - 1 - self._warmup_steps()
        return min(1.0, max(0.0, done / max(1, self.total_steps - self._warmup_steps())))
