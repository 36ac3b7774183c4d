"""What a run would do, without doing it."""

from __future__ import annotations

import torch

from stoker.train.devices import device_count, device_name
from stoker.train.engine import describe
from stoker.train.parallel import choose_strategy
from stoker.train.precision import choose_precision
from stoker.train.ranks import Ranks
from stoker.train.settle import settle
from stoker.train.spec import RunSpec
from stoker.train.task import Task
from stoker.train.world import World


def dry_run(task: Task, spec: RunSpec, world_size: int) -> list[str]:
    """The decisions of a run over `world_size` processes, in sentences.

    Raises:
        UserError: As the run itself would.
    """
    kind = torch.accelerator.current_accelerator() if device_count() else None
    device = torch.device(kind.type, 0) if kind is not None else torch.device("cpu")
    world = World(Ranks(world_size=world_size, local_size=world_size), device)
    settled = settle(task, spec, world)
    strategy = choose_strategy(spec.parallel, world, static_graph=task.static_graph and settled.plan.accumulation == 1)
    names = [device_name(torch.device(device.type, index)) for index in range(device_count())]
    return [
        f"devices: {', '.join(names) if names else f'CPU, {torch.get_num_threads()} threads'}",
        *describe(spec, settled, choose_precision(spec.precision, device), strategy),
    ]
