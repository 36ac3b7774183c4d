from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.train.schedule import Schedule
from stoker.train.spec.model import ScheduleSection


def schedule(total: int | None = 100, per_epoch: int = 10, **fields: Any) -> Schedule:
    return Schedule(ScheduleSection.model_validate(fields), per_epoch, total)


def factors(made: Schedule, total: int = 100) -> list[float]:
    return [made.factor(step, (step - 1) / total) for step in range(1, total + 1)]


def test_constant() -> None:
    assert set(factors(schedule())) == {1.0}


def test_warm_up_rises_in_equal_steps_to_the_peak() -> None:
    for warmup in ("4 steps", "4 %"):
        found = factors(schedule(warmup=warmup))
        assert found[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert factors(schedule(warmup="1 epoch"))[:10] == pytest.approx([step / 11 for step in range(1, 11)])


def test_linear_ends_one_step_before_final() -> None:
    found = factors(schedule(name="linear", final=0.1))
    assert found[0] == 1.0
    assert found[-1] == pytest.approx(0.1 + 0.9 / 100)


def test_cosine() -> None:
    found = factors(schedule(name="cosine", warmup="20 steps"))
    assert found[20] == 1.0
    assert found[60] == pytest.approx(0.5)
    assert found[-1] == pytest.approx((1 + math.cos(math.pi * 79 / 80)) / 2)
    assert all(later <= earlier for earlier, later in pairwise(found[20:]))


def test_steps() -> None:
    found = factors(schedule(name="step", drop_every="3 epochs", drop_factor=0.1))
    assert (found[29], found[30], found[60]) == pytest.approx((1.0, 0.1, 0.01))


def test_a_run_whose_length_in_steps_is_unknown() -> None:
    made = schedule(total=None, name="linear", warmup="10 %")
    assert made.factor(7, 0.05) == pytest.approx(0.5)
    assert made.factor(99, 0.55) == pytest.approx(0.5)
    assert made.factor(99, 1.0) == 0.0


@given(
    name=st.sampled_from(["constant", "linear", "cosine", "step"]),
    warmup=st.sampled_from(["0 steps", "7 steps", "10 %", "2 epochs"]),
    total=st.integers(1, 200),
    final=st.floats(0, 1),
)
def test_always_between_zero_and_the_peak(name: str, warmup: str, total: int, final: float) -> None:
    made = schedule(total=total, name=name, warmup=warmup, final=final)
    assert all(0 <= factor <= 1 for factor in factors(made, total))
