"""The training loop."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from stoker.data.batches import GlobalBatch, MicroBatch
from stoker.data.loader import checked
from stoker.errors import NotFiniteError, RunError
from stoker.train.checkpoint import Progress, Saver, first_broken, state_of
from stoker.train.evaluate import EvaluationResult, Evaluator
from stoker.train.inflight import InFlight, SettledStep
from stoker.train.observe import Observers
from stoker.train.schedule import Schedule
from stoker.train.signals import StopFlag
from stoker.train.spec import Quantity, RunSpec
from stoker.train.step import Stepper
from stoker.train.totals import Votes


@dataclass
class Loop:
    """Makes steps until the run is done or told to stop.

    Attributes:
        spec: What was asked for.
        stepper: Makes one step.
        schedule: The learning rate.
        total_steps: Number of the last step; None if time or tokens end the run.
        evaluator: Measures on held-out data; None if there is none.
        saver: Writes checkpoints; None if there are to be none.
        observers: Are told everything.
        stop: Raised when the process is told to stop.
        progress: How far the run is; kept up to date.
    """

    spec: RunSpec
    stepper: Stepper
    schedule: Schedule
    total_steps: int | None
    evaluator: Evaluator | None
    saver: Saver | None
    observers: Observers
    stop: StopFlag
    progress: Progress

    def __post_init__(self) -> None:
        self._in_flight = InFlight(on_cpu=self.stepper.world.on_cpu)
        self._base = self.progress.seconds - time.perf_counter()
        self._stopping = False
        self._save_failed = False
        self._saved_at = self.progress.position.step
        self._due_evaluation = _Due(self.spec.evaluate.every, self.progress.seconds)
        self._due_checkpoint = _Due(self.spec.checkpoint.every, self.progress.seconds)
        self.last_evaluation: tuple[int, EvaluationResult] | None = None

    def run(self, loader: Iterable[tuple[MicroBatch, Any]]) -> bool:
        """Train.

        Args:
            loader: This rank's micro-batches from the present position on, without end.

        Returns:
            Whether the run is complete; False if it was told to stop, and saved.

        Raises:
            RunError: The loss is no number, a sample cannot be read, or a save failed.
        """
        began_at = self.progress.position.step
        self.observers.start(began_at, self.fraction)
        if self.done:
            self.observers.say("nothing is left to do: give it a longer duration, or another output folder")
        batches = (checked(pair, "training") for pair in loader)
        while not self.done and not self._stopping:
            batch, readable = self._step(batches)
            for settled in readable:
                self._accept(settled)
            if self._save_failed and self.saver is not None:
                self.saver.wait()  # raises on every rank
            if self.evaluator is not None and self._due_evaluation.now(batch, self.progress.seconds):
                self._evaluate()
            if self._due_checkpoint.now(batch, self.progress.seconds) and not self.done:
                self._save()
        self._settle_all()
        complete = self.done
        last = self.progress.position.step
        if complete and self.evaluator is not None and last not in (began_at, self._evaluated_at):
            self._evaluate()
        self._save()
        if self.saver is not None:
            self.saver.wait()
        return complete

    @property
    def fraction(self) -> float:
        """Share of the run that is done, from 0 to 1."""
        duration, progress = self.spec.duration, self.progress
        if self.total_steps is not None:
            return min(1.0, progress.position.step / max(1, self.total_steps))
        spent = progress.seconds if duration.unit == "seconds" else progress.weight
        return min(1.0, spent / max(duration.amount, 1e-9))

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        if self.total_steps is not None:
            return self.progress.position.step >= self.total_steps
        return self.fraction >= 1

    @property
    def _evaluated_at(self) -> int | None:
        return None if self.last_evaluation is None else self.last_evaluation[0]

    def _step(self, batches: Iterator[tuple[MicroBatch, Any]]) -> tuple[GlobalBatch, Iterator[SettledStep]]:
        """Hand one step to the device; its samples, and the steps whose results can be read by now."""
        number = self.progress.position.step + 1
        lr = self.spec.optimizer.lr * self.schedule.factor(number, self.fraction)
        batch, pending = self.stepper.run(batches, lr, self._votes)
        self.progress.position = batch.after
        self.progress.samples += batch.size
        return batch, self._in_flight.push(batch, pending)

    def _votes(self) -> Votes:
        return Votes(
            stop=self.stop.raised,
            save_failed=self.saver is not None and self.saver.failed,
            seconds=self._base + time.perf_counter(),
        )

    def _accept(self, settled: SettledStep) -> None:
        """Act on what all ranks agreed on."""
        agreed = settled.agreed
        if not agreed.finite:
            raise self._not_finite(settled)
        if agreed.weight == 0:
            raise RunError(
                f"step {settled.batch.step} has no weight: Task.loss returned weight 0 for all of its samples"
            )
        self.progress.seconds = agreed.seconds
        self.progress.weight += agreed.weight
        self._stopping = self._stopping or agreed.stop_votes > 0
        self._save_failed = agreed.save_failures > 0
        self.observers.on_step(settled.record, self.fraction)

    def _settle_all(self) -> None:
        for settled in self._in_flight.drain():
            self._accept(settled)

    def _not_finite(self, settled: SettledStep) -> NotFiniteError:
        """Name the rank and the samples; every rank comes here at the same step."""
        own = [(list(micro.indices), value) for micro, value in settled.pending.totals.bad_micro_batches()]
        found = self.stepper.world.gather(own)
        places = [
            f"rank {rank}: samples {_shortened(indices)} give {value}"
            for rank, part in enumerate(found)
            for indices, value in part
        ]
        return NotFiniteError(
            f"the loss of step {settled.batch.step} is {settled.agreed.loss} "
            f"({'; '.join(places) or 'the sum over all ranks overflows'}). Nothing of this step was saved. "
            "Look at these samples, lower optimizer.lr, or set gradient.clip_norm."
        )

    def _evaluate(self) -> None:
        self._settle_all()
        assert self.evaluator is not None
        self.observers.on_activity("evaluate")
        position = self.progress.position
        result = self.evaluator.run()
        self.last_evaluation = position.step, result
        epoch = position.epoch - (position.offset == 0 and position.epoch > 0)
        self.observers.on_evaluation(position.step, epoch, result)

    def _save(self) -> None:
        """Start a checkpoint of the present state, unless it is saved already."""
        step = self.progress.position.step
        if self._saved_at == step:
            return
        self._settle_all()
        self._check_weights()
        if self.saver is None:
            return
        began = time.perf_counter()
        self.observers.on_activity("checkpoint")
        trainee, world = self.stepper.trainee, self.stepper.world
        self.stepper.strategy.share_buffers(trainee.module)
        self.observers.flush()
        scaler = None if trainee.scaler is None else trainee.scaler.state_dict()
        self.saver.save(
            state_of(trainee, world),
            replace(self.progress, scaler=scaler, world_size=world.size, spec=self.spec.model_dump(mode="json")),
        )
        self._saved_at = step
        self.observers.on_event("checkpoint", step, seconds=round(time.perf_counter() - began, 6))

    def _check_weights(self) -> None:
        """A gradient can be no number where the loss still is one: such weights must not become a checkpoint."""
        trainee, world = self.stepper.trainee, self.stepper.world
        broken = [name for name in world.gather(first_broken(trainee.model)) if name is not None]
        if broken:
            raise RunError(
                f"after step {self.progress.position.step} the weights are no numbers any more (the first: "
                f"{broken[0]}), although its loss was one. They were not saved. "
                "Look for a gradient that overflows, lower optimizer.lr, or set gradient.clip_norm."
            )


class _Due:
    """Whether something that comes at intervals is due after a step."""

    def __init__(self, every: Quantity, seconds: float) -> None:
        self._every = every
        self._turns = self._turn(seconds)

    def now(self, batch: GlobalBatch, seconds: float) -> bool:
        """Ask once after each step."""
        every = self._every
        match every.unit:
            case "epochs":
                return batch.ends_epoch and (batch.epoch + 1) % int(every.amount) == 0
            case "steps":
                return batch.step % int(every.amount) == 0
            case "seconds":
                before, self._turns = self._turns, self._turn(seconds)
                return self._turns > before
            case _:
                return False

    def _turn(self, seconds: float) -> int:
        return int(seconds // self._every.amount) if self._every.unit == "seconds" else 0


def _shortened(indices: list[int]) -> str:
    return str(indices) if len(indices) <= 16 else f"{str(indices[:16])[:-1]}, ... {len(indices)} in all]"
