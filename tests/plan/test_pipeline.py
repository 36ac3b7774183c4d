import pytest

from stoker.plan.pipeline import makespan, most_in_flight, order


def run(schedule, stages, micro_batches, chunks=1, seconds=(1.0, 2.0)):
    orders = [order(schedule, stage, stages, micro_batches, chunks) for stage in range(stages)]
    return makespan(orders, lambda _, slot: seconds[slot.direction == "B"] / chunks, 0.0, chunks)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bubble_is_that_of_the_paper(schedule):
    total, busy = run(schedule, 4, 8)
    assert busy == [24.0] * 4
    assert total == pytest.approx(24.0 * (1 + 3 / 8))  # (p - 1) / m, Narayanan et al. 2021


def test_interleaving_divides_the_bubble():
    total, _ = run("interleaved", 4, 8, chunks=2)
    assert total == pytest.approx(24.0 * (1 + 3 / 16))


def test_activations_in_flight():
    assert most_in_flight("gpipe", 0, 4, 8) == 8
    assert [most_in_flight("1f1b", stage, 4, 8) for stage in range(4)] == [4, 3, 2, 1]


@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("interleaved", 2)])
def test_every_slot_runs_once(schedule, chunks):
    slots = order(schedule, 1, 4, 8, chunks)
    assert len(slots) == len(set(slots)) == 2 * 8 * chunks
