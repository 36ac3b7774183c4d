from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.monitor.history import SPAN, STEP, History, thin


def known(values: tuple[float, ...]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def test_a_slot_is_the_mean_of_what_fell_into_it() -> None:
    history = History(span=60, step=10)
    for second, value in ((0, 1.0), (5, 3.0), (9.9, 5.0), (10, 10.0)):
        history.add(second, {"a": value})
    assert known(history.values("a")) == [3.0, 10.0]


def test_a_missing_value_is_a_gap_and_never_zero() -> None:
    history = History(span=40, step=10)
    history.add(0, {"a": 1.0, "b": 1.0})
    history.add(10, {"b": 2.0})
    history.add(20, {"a": math.nan, "b": math.inf})
    history.add(30, {"a": 4.0})
    assert [str(value) for value in history.values("a")] == ["1.0", "nan", "nan", "4.0"]
    assert [str(value) for value in history.values("b")] == ["1.0", "2.0", "nan", "nan"]


def test_an_unknown_series_has_only_gaps() -> None:
    assert known(History().values("none")) == []
    assert len(History().values("none")) == SPAN / STEP


def test_the_last_hour_is_kept_and_no_more() -> None:
    history = History()
    for second in range(0, 7200, 5):
        history.add(second, {"a": float(second)})
    values = history.values("a")
    assert len(values) == 360
    assert values[-1] == statistics.fmean((7190, 7195))
    assert values[0] == statistics.fmean((3600, 3605))


def test_a_series_that_ended_is_forgotten() -> None:
    history = History(span=30, step=10)
    history.add(0, {"ended": 1.0, "going": 1.0})
    for second in range(10, 60, 10):
        history.add(second, {"going": 1.0})
    assert len(history) == 1
    assert known(history.values("ended")) == []


def test_a_pause_longer_than_the_span_leaves_only_what_came_after() -> None:
    history = History(span=30, step=10)
    for second in (0, 10, 20, 1_000_000):
        history.add(second, {"a": float(second)})
    assert known(history.values("a")) == [1_000_000.0]


def test_a_clock_that_goes_back_loses_nothing() -> None:
    history = History(span=30, step=10)
    history.add(100, {"a": 1.0})
    history.add(5, {"a": 3.0})
    assert known(history.values("a")) == [2.0]


def test_memory_is_bounded() -> None:
    history = History(max_series=10)
    history.add(0, {f"run {number}": 1.0 for number in range(1000)})
    assert len(history) == 10


def test_a_mean_of_a_share_counts_what_is_known() -> None:
    assert thin([1, math.nan, math.nan, math.nan, 2, 4], 3)[0::2] == [1, 3]
    assert math.isnan(thin([1, math.nan, math.nan, math.nan, 2, 4], 3)[1])


samples = st.lists(st.tuples(st.integers(0, 40), st.floats(-1e6, 1e6)), min_size=1, max_size=60)


@given(samples, st.integers(1, 12))
def test_it_equals_the_plain_definition(steps: list[tuple[int, float]], slots: int) -> None:
    """Against a history that keeps everything and takes means at the end."""
    history = History(span=slots * 10, step=10)
    everything: dict[int, list[float]] = {}
    now = 0
    for wait, value in steps:
        now += wait
        history.add(now, {"a": value})
        everything.setdefault(now // 10, []).append(value)
    newest = now // 10
    for slot, got in zip(range(newest - slots + 1, newest + 1), history.values("a"), strict=True):
        if slot in everything:
            assert got == pytest.approx(statistics.fmean(everything[slot]), abs=1e-6)
        else:
            assert math.isnan(got)
