"""The processes of a run: which one this is, on which device, and how they agree."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from stoker.train.ranks import Ranks, read_ranks

MEET_TIMEOUT = timedelta(minutes=10)
"""How long ranks wait for each other, also in the slowest collective."""


@dataclass(frozen=True)
class World:
    """This process among those of the run.

    Attributes:
        ranks: Its numbers.
        device: Where it computes.
        control: Group over gloo for small agreements on the host; None with a single process.
        saving: Group of its own for the checkpoint thread, so that its messages never mix with others.
        owns_group: Whether `close` ends the process group; False where the caller had made it already.
    """

    ranks: Ranks
    device: torch.device
    control: dist.ProcessGroup | None = None
    saving: dist.ProcessGroup | None = None
    owns_group: bool = True

    @property
    def rank(self) -> int:
        """Number among all processes."""
        return self.ranks.rank

    @property
    def size(self) -> int:
        """Processes of the run."""
        return self.ranks.world_size

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, which writes what is written once."""
        return self.rank == 0

    @property
    def on_cpu(self) -> bool:
        """Whether results can be read without waiting for a device."""
        return self.device.type == "cpu"

    def sum_async(self, values: Tensor) -> Callable[[], Tensor]:
        """Start adding a tensor up over all ranks in place; the returned function waits for it."""
        if self.size == 1:
            return lambda: values
        work = dist.all_reduce(values, async_op=True)
        assert work is not None

        def wait() -> Tensor:
            work.wait()
            return values

        return wait

    def gather(self, item: Any) -> list[Any]:
        """Every rank's item, in rank order, on every rank. Items are pickled: for small things."""
        if self.size == 1:
            return [item]
        items: list[Any] = [None] * self.size
        dist.all_gather_object(items, item, group=self.control)
        return items

    def first_says(self, item: Any) -> Any:
        """Rank 0's item, on every rank."""
        if self.size == 1:
            return item
        items = [item]
        dist.broadcast_object_list(items, src=0, group=self.control)
        return items[0]

    def close(self) -> None:
        """Leave the process group, if one was joined."""
        if self.control is not None and self.owns_group and dist.is_initialized():
            dist.destroy_process_group()


def join_world(environ: dict[str, str] | None = None) -> World:
    """Choose the device, then meet the other ranks.

    The device is chosen before any call reaches CUDA, so that no process takes memory on a device of another.
    """
    environ = dict(os.environ) if environ is None else environ
    ranks = read_ranks(environ) or Ranks()
    device = _choose_device(ranks)
    if "OMP_NUM_THREADS" not in environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks.local_size))
    if ranks.world_size == 1:
        return World(ranks, device)
    if dist.is_initialized():
        return World(ranks, device, control=_host_group(), saving=_host_group(), owns_group=False)
    told_where = {"MASTER_ADDR", "MASTER_PORT"} <= environ.keys()
    backend = "gloo" if device.type == "cpu" else f"cpu:gloo,{device.type}:{_device_backend(device)}"
    dist.init_process_group(
        backend,
        init_method="env://" if told_where else f"tcp://{ranks.master_address}:{ranks.master_port}",
        rank=ranks.rank,
        world_size=ranks.world_size,
        timeout=MEET_TIMEOUT,
        device_id=None if device.type == "cpu" else device,
    )
    return World(ranks, device, control=_host_group(), saving=_host_group())


def _host_group() -> dist.ProcessGroup:
    """A new group of all ranks that works on the host."""
    group = dist.new_group(backend="gloo")
    assert isinstance(group, dist.ProcessGroup)
    return group


def _device_backend(device: torch.device) -> str:
    return dist.get_default_backend_for_device(device)


def _choose_device(ranks: Ranks) -> torch.device:
    if not torch.accelerator.is_available():
        return torch.device("cpu")
    count = torch.accelerator.device_count()
    kind = torch.accelerator.current_accelerator()
    assert kind is not None
    index = ranks.local_rank % count
    torch.accelerator.set_device_index(index)
    return torch.device(kind.type, index)
