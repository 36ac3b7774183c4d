"""A run file as the planner's workload: the step that the engine makes, in the order in which it makes it.

Called in the process that traces, on fake tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from stoker.data.loader import length_of
from stoker.plan.trace.apply import checkpoint_block
from stoker.plan.workload import OptimizerName, Piece, Precision, Workload
from stoker.train.find_task import find_task
from stoker.train.memory import blocks_to_checkpoint
from stoker.train.optimizer import make_optimizer
from stoker.train.precision import Format, best_format
from stoker.train.ranks import Ranks
from stoker.train.settle import Settled, settle
from stoker.train.spec import RunSpec, parse_spec
from stoker.train.spec.model import checkpoint_stride
from stoker.train.task import Task, map_tensors
from stoker.train.world import World

SAMPLES = 8
"""Samples that are read: they stand in turn for all of a batch."""

_NAMES: Mapping[str, OptimizerName] = {"adamw": "adamw", "sgd": "sgd", "adafactor": "adafactor"}


def run_workload(
    *,
    spec: Mapping[str, Any],
    folder: str,
    device: str,
    capability: tuple[int, int],
    world_size: int,
    local_size: int,
) -> Workload:
    """The workload of one rank.

    Args:
        spec: A checked spec as plain values.
        folder: Where relative task files start.
        device: `cuda` or `cpu`.
        capability: Of the GPU.
        world_size: Ranks of the run.
        local_size: Those of them on one machine.

    Raises:
        UserError: What `stoker train` would refuse.
    """
    run = parse_spec(spec)
    task = find_task(run.task, Path(folder))
    world = World(Ranks(world_size=world_size, local_size=local_size), torch.device(device))
    settled = settle(task, run, world, world_size)
    number_format = settled_format(run, device, capability)
    samples = _first_samples(settled)
    batch = task.collate([samples[place % len(samples)] for place in range(settled.plan.micro_size)])
    return Workload(
        name=run.task.use.rsplit("/", 1)[-1],
        build=lambda piece: _build(task, run, number_format, piece),
        batch=lambda _: map_tensors(batch, lambda tensor: _new_like(tensor, number_format)),
        loss=lambda model, data: _loss(task, model, data, settled.plan.global_size),
        micro_batch=settled.plan.micro_size,
        accumulation=settled.plan.accumulation,
        optimizer=_NAMES.get(run.optimizer.name, "adam"),
        precision=_precision(number_format),
        clip=run.gradient.clip_norm,
        bucket_view=True,
        make_optimizer=lambda model, where: make_optimizer(run.optimizer, model, torch.device(where)),
        keep_batch=True,
        rescale=device != "cpu",
        notes=tuple(_notes(run, settled, number_format, task, samples)),
    )


def settled_format(spec: RunSpec, device: str, capability: tuple[int, int]) -> Format:
    """The number format that the engine would choose on such a device."""
    if spec.precision != "auto":
        return spec.precision
    return best_format(device, bf16=capability >= (8, 0), fp16=capability >= (7, 0))[0]


def _precision(number_format: Format) -> Precision:
    """fp64 is a property of the model and its inputs; the planner knows no autocast to it."""
    return "fp32" if number_format == "fp64" else number_format


def _build(task: Task, spec: RunSpec, number_format: Format, _: Piece) -> nn.Module:
    model = task.build_model()
    if number_format == "fp64":
        model = model.to(torch.float64)
    stride = checkpoint_stride(spec.memory.activation_checkpointing)
    for block in blocks_to_checkpoint(model, task.blocks(model), stride):
        checkpoint_block(block)
    return model


def _loss(task: Task, model: nn.Module, batch: Any, global_size: int) -> Tensor:
    return task.loss(model, batch).total * (1.0 / global_size)


def _new_like(tensor: Tensor, number_format: Format) -> Tensor:
    """A tensor of the same shape where tensors are made now, in the format of the run."""
    wide = number_format == "fp64" and tensor.is_floating_point()
    return torch.empty(tensor.shape, dtype=torch.float64 if wide else tensor.dtype)


def _first_samples(settled: Settled) -> list[Any]:
    count = min(SAMPLES, length_of(settled.train_data), settled.plan.micro_size)
    return [settled.train_data[index] for index in range(count)]


def _notes(spec: RunSpec, settled: Settled, number_format: Format, task: Task, samples: Sequence[Any]) -> list[str]:
    said: list[str] = []
    if len({_shapes(sample) for sample in samples}) > 1:
        said.append(f"samples differ in shape: the first {len(samples)} stand for all, the longest batch needs more")
    if settled.eval_data is not None and settled.eval_batch_size > settled.plan.micro_size:
        said.append(f"evaluation, in batches of {settled.eval_batch_size} without gradients, is not planned")
    if number_format == "fp64":
        said.append("fp64 is priced like fp32: the step time is a lower bound")
    if ":" in spec.optimizer.name:
        said.append("a checkpoint is as large as the optimizer of your own keeps state")
    if not task.static_graph and spec.parallel.find_unused:
        said.append("the search for unused parameters takes time that is not planned")
    return said


def _shapes(sample: Any) -> tuple[tuple[int, ...], ...]:
    found: list[tuple[int, ...]] = []

    def look(tensor: Tensor) -> Tensor:
        found.append(tuple(tensor.shape))
        return tensor

    map_tensors(sample, look)
    return tuple(found)
