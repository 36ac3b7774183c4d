from __future__ import annotations

import weakref

import pytest
import torch

from stoker.data.batches import GlobalBatch, MicroBatch
from stoker.train.clock import HostTimes
from stoker.train.ranks import Ranks
from stoker.train.task import Loss
from stoker.train.totals import PendingStep, StepTotals, Votes, read_agreed
from stoker.train.world import World

BATCH = GlobalBatch(step=1, epoch=0, start=0, stop=8, ends_epoch=False)


def totals(rank: int = 0) -> StepTotals:
    return StepTotals(World(Ranks(rank=rank, world_size=1), torch.device("cpu")))


def micro(*indices: int, ghost: bool = False) -> MicroBatch:
    return MicroBatch(BATCH, indices, last=True, ghost=ghost)


def loss(total: float, weight: float, **metrics: float) -> Loss:
    return Loss(torch.tensor(total, requires_grad=True), torch.tensor(weight), metrics)


def test_micro_batches_add_up() -> None:
    step = totals()
    step.add(micro(0, 1), loss(3.0, 2, right=1, all=2))
    step.add(micro(2), loss(1.0, 2, right=torch.tensor(1), all=2))  # pyright: ignore[reportArgumentType]
    vector = step.vector(Votes(stop=True, save_failed=False, seconds=7.5))
    assert vector.dtype == torch.float64
    assert vector.tolist() == [4, 4, 1, 0, 7.5, 4, 2]
    assert step.names == ["all", "right"]
    agreed = read_agreed(vector.tolist(), step.names)
    assert (agreed.loss, agreed.weight, agreed.metrics) == (1.0, 4.0, {"all": 1.0, "right": 0.5})
    assert (agreed.stop_votes, agreed.save_failures, agreed.seconds, agreed.finite) == (1, 0, 7.5, True)


def test_small_losses_are_not_lost_in_a_large_sum() -> None:
    step = totals()
    for total in (1e8, *[1.0] * 20):
        step.add(micro(0), loss(total, 1))
    assert step.vector(Votes()).tolist()[0] == 1e8 + 20, "float32 would have dropped them"


def test_a_ghost_counts_nothing_but_has_the_same_places() -> None:
    step = totals()
    step.add(micro(0, ghost=True), loss(3.0, 2, right=1))
    assert step.vector(Votes(save_failed=True)).tolist() == [0, 0, 0, 1, 0, 0]


def test_the_clock_is_rank_0_s() -> None:
    step = totals(rank=1)
    step.add(micro(0), loss(1.0, 1))
    assert step.vector(Votes(seconds=9.0)).tolist()[4] == 0


def test_a_step_without_weight() -> None:
    assert read_agreed([0.0, 0.0, 0.0, 0.0, 0.0], []).loss == 0.0


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_micro_batches_that_give_no_number_are_known(bad: float) -> None:
    step = totals()
    step.add(micro(0, 1), loss(1.0, 2))
    step.add(micro(5, 6), loss(bad, 2))
    ((found, value),) = step.bad_micro_batches()
    assert found.indices == (5, 6)
    assert str(value) == str(bad)
    assert not read_agreed(step.vector(Votes()).tolist(), []).finite


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_graph_of_a_loss_is_let_go(device: str) -> None:
    step = StepTotals(World(Ranks(), torch.device(device)))
    total = torch.ones(2, requires_grad=True, device=device).sum()
    graph = weakref.ref(total)
    step.add(micro(0), Loss(total, 1.0))
    del total
    assert graph() is None


def test_a_pending_step_reads_vector_and_extras() -> None:
    step = totals()
    step.add(micro(0), loss(6.0, 2, right=1))
    pending = PendingStep(step, HostTimes({}), {}, {"grad_norm": torch.tensor([3.0]), "loss_scale": torch.tensor(2)})
    pending.copy_to_host(step.vector(Votes()).tolist())
    agreed, extras = pending.read()
    assert (agreed.loss, agreed.metrics) == (3.0, {"right": 0.5})
    assert extras == {"grad_norm": 3.0, "loss_scale": 2.0}
