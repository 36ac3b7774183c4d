"""One process per device, each with the whole model; gradients are averaged while backward still runs."""

from __future__ import annotations

from contextlib import AbstractContextManager

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from stoker.train import compat
from stoker.train.parallel.base import Strategy

_WITH_STATISTICS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class DDPStrategy(Strategy):
    """torch's DistributedDataParallel."""

    name = "ddp"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Move the model and wrap it; weights are made equal to rank 0's."""
        device = self.world.device
        return DistributedDataParallel(
            model.to(device),
            device_ids=None if device.type == "cpu" else [device.index],
            gradient_as_bucket_view=True,
            find_unused_parameters=self.find_unused,
            static_graph=self.static_graph,
            **compat.no_buffer_sync(),  # share_buffers does it when it matters, and loses no rank's statistics
        )

    @property
    def exchange_divisor(self) -> int:
        """DDP averages over the ranks."""
        return self.world.size

    def local_gradients(self, module: nn.Module) -> AbstractContextManager[object]:
        """Only the last micro-batch of a step pays for the exchange."""
        assert isinstance(module, DistributedDataParallel)
        return module.no_sync()

    @torch.no_grad()
    def share_buffers(self, module: nn.Module) -> None:
        """Average the running statistics of batch normalisation; take every other buffer from rank 0."""
        averaged: set[int] = set()
        for part in module.modules():
            if isinstance(part, _WITH_STATISTICS) and part.running_mean is not None and part.running_var is not None:
                for buffer in (part.running_mean, part.running_var):
                    dist.all_reduce(buffer)
                    buffer /= self.world.size
                    averaged.add(id(buffer))
        for buffer in module.buffers():
            if id(buffer) not in averaged:
                dist.broadcast(buffer, src=0)

    def describe(self) -> str:
        """One sentence for the log."""
        return f"ddp over {self.world.size} processes on {self.world.device.type}"
