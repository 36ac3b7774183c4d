from __future__ import annotations

import torch

from stoker.data.batches import GlobalBatch
from stoker.train.clock import HostTimes
from stoker.train.inflight import InFlight
from stoker.train.ranks import Ranks
from stoker.train.totals import LAG, PendingStep, StepTotals
from stoker.train.world import World


def step(number: int, scale: float | None = None) -> tuple[GlobalBatch, PendingStep]:
    """A step whose loss is its number; on a real device it would be read a little later."""
    totals = StepTotals(World(Ranks(), torch.device("cpu")))
    extras = {} if scale is None else {"loss_scale": torch.tensor(scale)}
    pending = PendingStep(totals, HostTimes({"data": 0.5}), {"lr": 0.1, "seconds": 1.0}, extras)
    pending.copy_to_host([2.0 * number, 2.0, 0, 0, 0])
    return GlobalBatch(number, 0, 0, 4, ends_epoch=False), pending


def test_on_the_cpu_a_step_is_read_at_once() -> None:
    queue = InFlight(on_cpu=True)
    for number in (1, 2):
        (settled,) = queue.push(*step(number))
        assert (settled.record.step, settled.record.loss, settled.record.samples) == (number, number, 4)
        assert (settled.record.lr, settled.record.phases, settled.record.seconds) == (0.1, {"data": 0.5}, 1.0)
    assert list(queue.drain()) == []


def test_on_a_device_each_step_is_read_a_fixed_number_of_steps_later() -> None:
    queue = InFlight(on_cpu=False)
    read = [[settled.record.step for settled in queue.push(*step(number))] for number in range(1, 7)]
    assert read == [[]] * LAG + [[number] for number in range(1, 7 - LAG)]
    assert [settled.record.step for settled in queue.drain()] == [5, 6]
    assert list(queue.drain()) == []
    assert list(queue.push(*step(7))) == [], "the distance is kept after a pause"


def test_waiting_is_counted_to_the_step_just_handed_over() -> None:
    queue = InFlight(on_cpu=False)
    pendings = [step(number) for number in range(1, LAG + 2)]
    records = [settled.record for pair in pendings for settled in queue.push(*pair)]
    assert records[0].seconds == 1.0
    assert pendings[-1][1].notes["seconds"] > 1.0
    assert sum(pending.notes["seconds"] > 1.0 for _, pending in pendings) == 1


def test_a_fallen_loss_scale_means_that_the_step_was_skipped() -> None:
    queue = InFlight(on_cpu=True)
    scales = (8.0, 8.0, 4.0, 4.0, 8.0, 2.0)
    skipped = [settled.record.skipped for n, scale in enumerate(scales, 1) for settled in queue.push(*step(n, scale))]
    assert skipped == [False, False, True, False, False, True]
