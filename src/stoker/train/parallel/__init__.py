"""How one model is spread over devices. The loop knows a strategy by the methods of `Strategy` alone."""

from __future__ import annotations

from typing import Literal

from stoker.errors import UserError
from stoker.train.parallel.base import MicroStep, Passenger, Strategy
from stoker.train.parallel.data_parallel import DataParallelStrategy
from stoker.train.parallel.ddp import DDPStrategy
from stoker.train.parallel.single import SingleStrategy
from stoker.train.spec.model import ParallelSection
from stoker.train.world import World

__all__ = ["MicroStep", "Passenger", "Strategy", "choose_strategy"]

_STRATEGIES: dict[str, type[Strategy]] = {
    "single": SingleStrategy,
    "ddp": DDPStrategy,
    "dp": DataParallelStrategy,
}


def choose_strategy(section: ParallelSection, world: World, *, static_graph: bool) -> Strategy:
    """The strategy that was asked for; `auto` is ddp with several processes, else single.

    Raises:
        UserError: It does not fit the number of processes or devices.
    """
    name: Literal["single", "dp", "ddp"]
    name = section.strategy if section.strategy != "auto" else ("ddp" if world.size > 1 else "single")
    if world.size > 1 and name != "ddp":
        raise UserError(
            f"parallel.strategy: {name} is for one process, but there are {world.size}; write ddp, or --processes 1"
        )
    if world.size == 1 and name == "ddp":
        name = "single"  # the same thing without an exchange
    return _STRATEGIES[name](world, find_unused=section.find_unused, static_graph=static_graph)
