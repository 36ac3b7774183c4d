"""What every strategy is to the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from stoker.train.world import World


class Passenger(NamedTuple):
    """A leaf tensor and the gradient that it is given: it rides along in a backward pass that does not need it."""

    tensor: Tensor
    gradient: Tensor


class MicroStep(Protocol):
    """One micro-batch of a step, as the loop hands it to a strategy."""

    @property
    def last(self) -> bool:
        """Whether it is this rank's last one of the step."""
        ...

    def forward(self) -> Tensor:
        """Run the model; the scaled loss to differentiate, a scalar."""
        ...

    def backward(self, loss: Tensor) -> None:
        """Differentiate."""
        ...


class Strategy(ABC):
    """How one model is spread over devices.

    Args:
        world: The processes.
        find_unused: Whether parameters may be left out of a step.
        static_graph: Whether every step uses the same parameters in the same way.
    """

    name: str

    def __init__(self, world: World, *, find_unused: bool = False, static_graph: bool = False) -> None:
        self.world = world
        self.find_unused = find_unused
        self.static_graph = static_graph
        self._receive: Callable[[], Tensor]

    @abstractmethod
    def wrap(self, model: nn.Module) -> nn.Module:
        """Place a model that is on the CPU; what is returned is what `Task.loss` calls.

        The optimizer is built after this, from the returned module's parameters.
        """

    @property
    def exchange_divisor(self) -> int:
        """What the exchange divides the sum of the ranks' gradients by; the loss is scaled up by it."""
        return 1

    def local_gradients(self, module: nn.Module) -> AbstractContextManager[object]:
        """Context in which backward keeps gradients on this rank."""
        del module
        return nullcontext()

    def accumulate(self, module: nn.Module, micro_steps: Iterable[MicroStep]) -> None:
        """Forward and backward of all micro-batches of a step.

        Afterwards every parameter's gradient is that of the summed loss over all ranks and micro-batches.
        """
        for micro in micro_steps:
            if micro.last:
                micro.backward(micro.forward())
            else:
                with self.local_gradients(module):
                    micro.backward(micro.forward())

    def send(self, vector: Tensor) -> Passenger | None:
        """Start adding a small vector up over all ranks, in the last forward of a step.

        Args:
            vector: On the world's device, in double precision; the same length on all ranks.

        Returns:
            What the backward that follows has to take along, if the vector travels with the gradients; None
            if it does not.
        """
        self._receive = self.world.sum_async(vector)
        return None

    def receive(self) -> Tensor:
        """The sum, once that backward is done."""
        return self._receive()

    def clip(self, parameters: list[nn.Parameter], max_norm: float) -> Tensor:
        """Scale the gradients down to `max_norm`; the global L2 norm before."""
        return nn.utils.clip_grad_norm_(parameters, max_norm)

    @torch.no_grad()
    def share_buffers(self, module: nn.Module) -> None:
        """Make buffers equal on all ranks before they are evaluated or saved."""
        del module

    def describe(self) -> str:
        """One sentence for the log."""
        return f"{self.name} on {self.world.device}"
