"""Pipeline schedules: in which order a stage runs micro-batches, and how long all stages take together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from stoker.plan.layout import Schedule


class Slot(NamedTuple):
    """One pass of one micro-batch through one chunk of the model.

    Attributes:
        direction: `F` for forward, `B` for backward.
        chunk: Chunk on this stage, from 0; always 0 unless interleaved.
        micro_batch: From 0.
    """

    direction: Literal["F", "B"]
    chunk: int
    micro_batch: int


Watch = Callable[[int, Slot, float, float], None]
"""Is told a stage, its slot, and when the slot began and ended, in seconds."""


def order(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> list[Slot]:
    """Slots of one stage, in the order in which it runs them.

    1F1B and GPipe as in Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; interleaved as in its section
    2.2.2, where the micro-batches must be a multiple of the stages.
    """
    if schedule == "gpipe":
        forward = [Slot("F", 0, m) for m in range(micro_batches)]
        return forward + [Slot("B", 0, m) for m in range(micro_batches)]
    total = micro_batches * chunks
    if schedule == "interleaved" and chunks > 1:
        warm = min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages)
    else:
        warm = min(total, stages - stage - 1)
    forward = [_slot("F", n, stages, chunks) for n in range(total)]
    backward = [_slot("B", n, stages, chunks) for n in range(total)]
    steady = [slot for pair in zip(forward[warm:], backward, strict=False) for slot in pair]
    return forward[:warm] + steady + backward[total - warm :]


def _slot(direction: Literal["F", "B"], number: int, stages: int, chunks: int) -> Slot:
    if chunks == 1:
        return Slot(direction, 0, number)
    group, within = divmod(number, stages * chunks)
    chunk = within // stages
    return Slot(direction, chunk if direction == "F" else chunks - 1 - chunk, group * stages + within % stages)


def most_in_flight(schedule: Schedule, stage: int, stages: int, micro_batches: int, chunks: int = 1) -> int:
    """Most micro-batches whose activations a stage holds at once."""
    held = most = 0
    for slot in order(schedule, stage, stages, micro_batches, chunks):
        held += 1 if slot.direction == "F" else -1
        most = max(most, held)
    return most


def makespan(
    orders: Sequence[Sequence[Slot]],
    duration: Callable[[int, Slot], float],
    transfer: float,
    chunks: int = 1,
    watch: Watch | None = None,
) -> tuple[float, list[float]]:
    """Time until the last stage is done, and the time that each stage works.

    Args:
        orders: Slots of every stage in their order.
        duration: Seconds that a slot takes on a stage.
        transfer: Seconds that activations take to the next stage.
        chunks: Chunks of the model per stage.
        watch: Is told every slot.

    Returns:
        Seconds in all, and busy seconds per stage.
    """
    stages = len(orders)
    done: dict[tuple[int, Slot], float] = {}
    clock, busy, place = [0.0] * stages, [0.0] * stages, [0] * stages
    remaining = sum(map(len, orders))
    while remaining:
        moved = False
        for stage in range(stages):
            while place[stage] < len(orders[stage]):
                slot = orders[stage][place[stage]]
                needed = _needs(stage, slot, stages, chunks)
                if needed is not None and needed not in done:
                    break
                same = needed is not None and needed[0] == stage
                ready = 0.0 if needed is None else done[needed] + (0.0 if same else transfer)
                seconds = duration(stage, slot)
                clock[stage] = max(clock[stage], ready) + seconds
                busy[stage] += seconds
                if watch is not None:
                    watch(stage, slot, clock[stage] - seconds, clock[stage])
                done[stage, slot] = clock[stage]
                place[stage] += 1
                remaining -= 1
                moved = True
        if not moved:
            raise ValueError("the schedule waits for itself: micro-batches must be a multiple of the stages")
    return max(clock), busy


def _needs(stage: int, slot: Slot, stages: int, chunks: int) -> tuple[int, Slot] | None:
    """The slot that must be done before, and its stage; None for the first forward pass."""
    if slot.direction == "F":
        if stage > 0:
            return stage - 1, slot
        return None if slot.chunk == 0 else (stages - 1, slot._replace(chunk=slot.chunk - 1))
    if stage < stages - 1:
        return stage + 1, slot
    if slot.chunk < chunks - 1:
        return 0, slot._replace(chunk=slot.chunk + 1)
    return stage, slot._replace(direction="F")
