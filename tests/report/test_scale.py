import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.report.scale import Scale, fit_scale, fit_steps, nice_ticks, tick_labels

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(st.floats(), max_size=20), st.booleans(), st.sampled_from([None, True, False]))
def test_any_values_give_an_axis_that_holds_them(values, from_zero, log):
    scale = fit_scale(values, from_zero=from_zero, log=log)
    assert math.isfinite(scale.low)
    assert math.isfinite(scale.high)
    assert scale.low < scale.high
    for value in values:
        place = scale.place(value)
        assert math.isnan(place) or 0 <= place <= 1
    assert all(math.isfinite(tick) for tick in scale.ticks())
    assert len(tick_labels(scale.ticks())) == len(scale.ticks())


@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e12))
def test_nice_ticks_cover_the_range_with_few_round_values(low, span):
    high = low + span
    ticks = nice_ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high))
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 8


def test_a_loss_that_spans_decades_gets_a_logarithmic_axis():
    assert fit_scale([2.3, 0.01]).log
    assert not fit_scale([2.3, 1.9]).log
    assert not fit_scale([2.3, 0.0]).log
    assert Scale(0.01, 1, log=True).place(0.1) == pytest.approx(0.5)


def test_an_axis_from_zero_begins_there_unless_values_are_negative():
    assert fit_scale([50, 60], from_zero=True).low == 0
    assert fit_scale([-5, 60], from_zero=True).low < 0


def test_a_constant_lies_inside_its_axis():
    scale = fit_scale([5.0, 5.0])
    assert 0 < scale.place(5.0) < 1


def test_one_step_has_a_place():
    assert fit_steps([7]).place(7) == 0.5


def test_labels_tell_ticks_apart_with_few_digits():
    assert tick_labels([0.0, 0.0001, 0.0002]) == ["0", "1e-4", "2e-4"]
    assert tick_labels([500.0, 1000.0, 1500.0]) == ["500", "1k", "1.5k"]
    assert tick_labels([0.01, 0.1, 1.0]) == ["0.01", "0.1", "1"]
