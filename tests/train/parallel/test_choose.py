from __future__ import annotations

import pytest
import torch
from torch import nn

from stoker.errors import UserError
from stoker.train.parallel import Strategy, choose_strategy
from stoker.train.ranks import Ranks
from stoker.train.spec.model import ParallelSection
from stoker.train.world import World


def choose(strategy: str, size: int) -> Strategy:
    section = ParallelSection.model_validate({"strategy": strategy})
    return choose_strategy(section, World(Ranks(world_size=size), torch.device("cpu")), static_graph=False)


@pytest.mark.parametrize(
    ("strategy", "size", "name"),
    [("auto", 1, "single"), ("auto", 2, "ddp"), ("ddp", 2, "ddp"), ("ddp", 1, "single"), ("single", 1, "single")],
)
def test_by_the_number_of_processes(strategy: str, size: int, name: str) -> None:
    assert choose(strategy, size).name == name


@pytest.mark.parametrize("strategy", ["single", "dp"])
def test_one_process_only(strategy: str) -> None:
    with pytest.raises(UserError, match=f"{strategy} is for one process, but there are 2; write ddp, or --processes 1"):
        choose(strategy, 2)


@pytest.mark.skipif(torch.cuda.device_count() > 1, reason="this machine has several GPUs, where dp works")
def test_dp_needs_several_gpus() -> None:
    with pytest.raises(UserError, match="dp needs one process that sees two or more CUDA devices; write auto"):
        choose("dp", 1).wrap(nn.Linear(1, 1))


def test_in_words() -> None:
    assert choose("auto", 1).describe() == "single on cpu"
    assert "ddp is faster" in choose("dp", 1).describe()
    assert choose("auto", 4).describe() == "ddp over 4 processes on cpu"
