"""One optimizer step: accumulate, agree, weigh, clip, update."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from stoker.data.batches import GlobalBatch, MicroBatch
from stoker.train import compat
from stoker.train.clock import Clock
from stoker.train.parallel import Passenger, Strategy
from stoker.train.precision import Precision
from stoker.train.task import Loss, Task, to_device
from stoker.train.totals import PendingStep, StepTotals, Votes
from stoker.train.world import World

Batches = Iterator[tuple[MicroBatch, Any]]


@dataclass
class Trainee:
    """What is trained and what trains it.

    Attributes:
        task: The user's task.
        model: The model itself, whose names the checkpoint holds.
        module: The model as the strategy wrapped it.
        optimizer: Over the module's parameters.
        scaler: Loss scale for fp16.
    """

    task: Task
    model: nn.Module
    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None


@dataclass
class Stepper:
    """Makes steps.

    Attributes:
        clip_norm: Largest global gradient norm; None does not clip.
        clock: Times the phases.
    """

    trainee: Trainee
    strategy: Strategy
    precision: Precision
    world: World
    clip_norm: float | None
    clock: Clock

    def run(self, batches: Batches, lr: float, votes: Callable[[], Votes]) -> tuple[GlobalBatch, PendingStep]:
        """Make one step.

        Args:
            batches: This rank's micro-batches; those of one step are taken.
            lr: Learning rate of the step.
            votes: What this rank brings to the step's agreement.

        Returns:
            The step's samples, and its results to be read later.
        """
        began = time.perf_counter()
        totals = StepTotals(self.world)
        work = _Work(self, batches, totals, votes)
        self.strategy.accumulate(self.trainee.module, work)
        assert work.batch is not None
        with self.clock.phase("optimizer"):
            vector = self.strategy.receive()
            known = vector.tolist() if self.world.on_cpu else None
            extras = self._update(vector, known, work.batch, lr)
        notes = {"lr": lr, "seconds": time.perf_counter() - began}
        pending = PendingStep(totals, self.clock.take(), notes, extras)
        pending.copy_to_host(vector if known is None else known)
        return work.batch, pending

    def _update(self, vector: Tensor, known: list[float] | None, batch: GlobalBatch, lr: float) -> dict[str, Tensor]:
        """Weigh, clip and apply the gradients; device scalars worth reporting.

        Args:
            vector: The step's agreement.
            known: Its values, where the host has them already.
            batch: The step's samples.
            lr: Learning rate.
        """
        trainee, extras = self.trainee, dict[str, Tensor]()
        for group in trainee.optimizer.param_groups:
            group["lr"] = lr
        if known is not None and not _worth_applying(*known[:2]):
            trainee.optimizer.zero_grad(set_to_none=True)
            return extras
        if trainee.scaler is not None:
            trainee.scaler.unscale_(trainee.optimizer)
        # Backward had to divide by the number of samples, before the weight of all ranks was known. That was
        # right already where the samples are what is weighed.
        if known is None or known[1] != batch.size:
            gradients = [weight.grad for weight in self._weights() if weight.grad is not None]
            compat.multiply_all(gradients, batch.size / vector[1])
        if self.clip_norm is not None:
            extras["grad_norm"] = self.strategy.clip(self._weights(), self.clip_norm)
        if trainee.scaler is None:
            trainee.optimizer.step()
        else:
            trainee.scaler.step(trainee.optimizer)
            trainee.scaler.update()
            extras["loss_scale"] = compat.loss_scale(trainee.scaler)
        trainee.optimizer.zero_grad(set_to_none=True)
        return extras

    def _weights(self) -> list[nn.Parameter]:
        return [weight for group in self.trainee.optimizer.param_groups for weight in group["params"]]


def _worth_applying(loss: float, weight: float) -> bool:
    """On the CPU a loss that is no number, or a step of padding only, is seen in time to keep the weights.

    On a device it is seen some steps later, and the run stops before anything is saved.
    """
    return math.isfinite(loss) and weight != 0


class _Work:
    """The micro-batches of one step, for the strategy to run."""

    def __init__(self, stepper: Stepper, batches: Batches, totals: StepTotals, votes: Callable[[], Votes]) -> None:
        self.stepper, self.batches, self.totals, self.votes = stepper, batches, totals, votes
        self.batch: GlobalBatch | None = None

    def __iter__(self) -> Iterator[_Micro]:
        last = False
        while not last:
            with self.stepper.clock.phase("data"):
                request, batch = next(self.batches)
                batch = to_device(batch, self.stepper.world.device, dtype=self.stepper.precision.model_dtype)
            self.batch, last = request.batch, request.last
            yield _Micro(self, request, batch)


class _Micro:
    """One micro-batch on its way through the model."""

    def __init__(self, work: _Work, request: MicroBatch, batch: Any) -> None:
        self.work, self.request, self.batch = work, request, batch
        self.message: Passenger | None = None

    @property
    def last(self) -> bool:
        return self.request.last

    def forward(self) -> Tensor:
        stepper, request = self.work.stepper, self.request
        with stepper.clock.phase("forward"), stepper.precision.autocast():
            loss = self._loss()
        self.work.totals.add(request, loss)
        if request.last:
            self.message = stepper.strategy.send(self.work.totals.vector(self.work.votes()))
        share = 0.0 if request.ghost else stepper.strategy.exchange_divisor / request.batch.size
        return loss.total * share

    def _loss(self) -> Loss:
        """The task's loss; a ghost leaves running statistics alone."""
        trainee = self.work.stepper.trainee
        if not self.request.ghost:
            return trainee.task.loss(trainee.module, self.batch)
        trainee.module.eval()
        try:
            return trainee.task.loss(trainee.module, self.batch)
        finally:
            trainee.module.train()

    def backward(self, loss: Tensor) -> None:
        with self.work.stepper.clock.phase("backward"):
            scaler = self.work.stepper.trainee.scaler
            scaled = loss if scaler is None else scaler.scale(loss)
            if self.message is None:
                scaled.backward()
            else:
                torch.autograd.backward([scaled, self.message.tensor], [None, self.message.gradient])
