"""One process per device, each with the whole model; gradients are averaged while backward still runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from stoker.train import compat
from stoker.train.parallel.base import Passenger, Strategy

_WITH_STATISTICS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


CAPACITY = 64
"""Numbers that fit into the message that travels with the gradients."""


class _Carrier(nn.Module):
    """A model with one parameter more, whose gradient is a message: DDP adds it up with all the others.

    The message has the precision of float32 at least: a count is exact up to 2 ** 24.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        like = next(weight for weight in model.parameters() if weight.requires_grad)
        dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
        # In a list behind the model: a task that walks over parameters meets the model's own first.
        self.luggage = nn.ParameterList([nn.Parameter(torch.zeros(CAPACITY, dtype=dtype, device=like.device))])

    @property
    def message(self) -> nn.Parameter:
        """Always zero; its gradient is what travels."""
        return self.luggage[0]

    def forward(self, *arguments: Any, **named: Any) -> Any:
        return self.model(*arguments, **named)


class DDPStrategy(Strategy):
    """torch's DistributedDataParallel."""

    name = "ddp"
    _carrier: _Carrier | None = None

    def wrap(self, model: nn.Module) -> nn.Module:
        """Move the model and wrap it; weights are made equal to rank 0's."""
        device = self.world.device
        inner = model.to(device)
        if not self.find_unused:  # DDP would take the message, which no output depends on, for unused
            self._carrier = inner = _Carrier(inner)
        return DistributedDataParallel(
            inner,
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

    def send(self, vector: Tensor) -> Passenger | None:
        """Let the vector travel in the gradients' own buckets: no collective of its own."""
        if self._carrier is None or len(vector) > CAPACITY:
            return super().send(vector)
        message = self._carrier.message
        gradient = torch.zeros_like(message)
        torch.mul(vector, self.exchange_divisor, out=gradient[: len(vector)])  # since DDP divides by the ranks
        self._receive = lambda: self._read(message, len(vector))
        return Passenger(message, gradient)

    def _read(self, message: nn.Parameter, length: int) -> Tensor:
        assert message.grad is not None
        received = message.grad[:length].double()
        message.grad = None
        return received

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
