import math

from hypothesis import given
from hypothesis import strategies as st

from stoker.report.curve import CurveBuilder, Point, curve_of, smooth

values = st.lists(st.floats(allow_nan=True, allow_infinity=True, width=32), max_size=3000)


@given(values)
def test_a_curve_is_bounded_and_keeps_its_extremes(numbers):
    curve = curve_of([Point(step, value) for step, value in enumerate(numbers, start=1)])
    assert len(curve.extremes) <= 1500
    assert len(curve.means) <= 500
    assert curve.rows == len(numbers)
    finite = [value for value in numbers if math.isfinite(value)]
    drawn = [point.value for point in curve.extremes if math.isfinite(point.value)]
    assert curve.bad == len(numbers) - len(finite)
    assert (min(drawn), max(drawn)) == (min(finite), max(finite)) if finite else not drawn
    steps = [point.step for point in curve.extremes]
    assert steps == sorted(steps)


def test_short_curves_are_kept_as_they_are():
    points = tuple(Point(step, step**0.5) for step in range(1, 401))
    curve = curve_of(points)
    assert curve.extremes == curve.means == points
    assert curve.width == 1


def test_a_single_spike_among_many_survives_at_its_step():
    curve = curve_of([Point(step, 100.0 if step == 77_777 else 1.0) for step in range(1, 200_001)])
    assert Point(77_777, 100.0) in curve.extremes
    assert curve.high == Point(77_777, 100.0)
    assert curve.width == 512


def test_means_are_those_of_the_rows():
    curve = curve_of([Point(step, float(step)) for step in range(1, 2001)])
    assert curve.width == 4
    assert curve.means[0] == Point(2.5, 2.5)
    assert sum(point.value for point in curve.means) / len(curve.means) == 1000.5


def test_values_that_are_not_finite_are_gaps_with_a_first_step():
    curve = curve_of([Point(1, 1.0), Point(2, math.nan), Point(3, math.inf), Point(4, 2.0)])
    assert (curve.bad, curve.first_bad, curve.last) == (2, 2, Point(4, 2.0))
    assert [math.isnan(point.value) for point in curve.extremes] == [False, True, True, False]


def test_rewinding_replaces_the_steps_that_are_done_again():
    builder = CurveBuilder()
    for step in range(1, 11):
        builder.add(step, 1.0)
    builder.rewind(6)
    for step in range(6, 9):
        builder.add(step, 2.0)
    curve = builder.build()
    assert [point.step for point in curve.means] == list(range(1, 9))
    assert [point.value for point in curve.means] == [1.0] * 5 + [2.0] * 3
    assert curve.rows == 13


def test_rewinding_into_a_wide_bucket_keeps_steps_in_order():
    builder = CurveBuilder()
    for step in range(1, 5001):
        builder.add(step, float(step % 7))
    builder.rewind(2222)
    for step in range(2222, 6001):
        builder.add(step, float(step % 7))
    curve = builder.build()
    for points in (curve.extremes, curve.means):
        steps = [point.step for point in points]
        assert steps == sorted(steps)
    assert curve.last.step == 6000


def test_smoothing_keeps_a_constant_and_calms_noise():
    assert smooth([Point(step, 3.0) for step in range(100)]) == tuple(Point(step, 3.0) for step in range(100))
    noisy = [Point(step, float(step % 2)) for step in range(100)]
    calm = smooth(noisy, reach=8)
    assert all(abs(point.value - 0.5) < 0.1 for point in calm[8:-8])


def test_smoothing_keeps_gaps_and_does_not_spread_them():
    points = [Point(0, 1.0), Point(1, math.nan), Point(2, 1.0)]
    smoothed = smooth(points)
    assert [point.value == 1.0 for point in smoothed] == [True, False, True]
    assert math.isnan(smoothed[1].value)
