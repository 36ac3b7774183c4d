"""Everything that is decided before the first step: what `--dry-run` prints and the engine uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.utils.data import Dataset

from stoker.data.batches import BatchPlan, Position, steps_per_epoch
from stoker.data.loader import choose_workers, length_of
from stoker.errors import UserError
from stoker.train.schedule import Schedule
from stoker.train.spec import RunSpec
from stoker.train.task import Task
from stoker.train.world import World


@dataclass(frozen=True)
class Settled:
    """A spec with every `auto` decided.

    Attributes:
        train_data: The data.
        samples: Its length.
        eval_data: Held-out data; None if there is none or it is not asked for.
        plan: Batch arithmetic.
        steps_per_epoch: Steps of one pass.
        workers: Data workers per rank.
        eval_batch_size: Samples per evaluation batch.
    """

    train_data: Dataset[Any]
    samples: int
    eval_data: Dataset[Any] | None
    plan: BatchPlan
    steps_per_epoch: int
    workers: int
    eval_batch_size: int

    def total_steps(self, spec: RunSpec, start: Position) -> int | None:
        """Number of the last step when the run stands at `start` now; None if time or tokens end it."""
        duration = spec.duration
        if duration.unit == "steps":
            return int(duration.amount)
        if duration.unit != "epochs":
            return None
        epochs_left = int(duration.amount) - start.epoch
        if epochs_left <= 0:
            return start.step
        rest = steps_per_epoch(self.samples - start.offset, self.plan.global_size, spec.data.last_batch)
        return start.step + rest + (epochs_left - 1) * self.steps_per_epoch

    def schedule(self, spec: RunSpec, start: Position) -> Schedule:
        """The learning-rate schedule."""
        return Schedule(spec.schedule, self.steps_per_epoch, self.total_steps(spec, start))


def settle(task: Task, spec: RunSpec, world: World, world_size: int | None = None) -> Settled:
    """Decide.

    Args:
        task: The task; its datasets are made here.
        spec: What was asked for.
        world: This process; only its device and local size are used.
        world_size: Ranks to settle for; those of `world` by default.

    Raises:
        UserError: The data cannot fill a batch.
    """
    size = world_size or world.size
    train_data = task.train_data()
    samples = _length(train_data, "train_data")
    plan = BatchPlan.make(spec.batch.global_size, spec.batch.micro_size, size)
    _check_fill(samples, spec.batch.global_size)
    eval_data = None if spec.evaluate.every.unit == "never" else task.eval_data()
    if eval_data is not None and _length(eval_data, "eval_data") == 0:
        raise UserError("the evaluation data is empty: Task.eval_data() has no samples; return None to skip evaluation")
    return Settled(
        train_data=train_data,
        samples=samples,
        eval_data=eval_data,
        plan=plan,
        steps_per_epoch=steps_per_epoch(samples, plan.global_size, spec.data.last_batch),
        workers=choose_workers(
            spec.data.workers, dataset=train_data, on_cpu=world.on_cpu, local_ranks=world.ranks.local_size
        ),
        eval_batch_size=_eval_batch_size(spec),
    )


def _length(dataset: Any, what: str) -> int:
    try:
        return length_of(dataset)
    except TypeError as error:
        raise UserError(f"Task.{what}() is not usable: {error}") from None


def _check_fill(samples: int, global_size: int) -> None:
    if samples == 0:
        raise UserError("the training data is empty: Task.train_data() has no samples")
    if samples < global_size:
        raise UserError(
            f"batch.global_size is {global_size}, but the training data has only {samples} samples; "
            f"write at most {samples}"
        )


def _eval_batch_size(spec: RunSpec) -> int:
    if spec.evaluate.batch_size != "auto":
        return spec.evaluate.batch_size
    if spec.batch.micro_size != "auto":
        return spec.batch.micro_size
    return min(spec.batch.global_size, 64)
