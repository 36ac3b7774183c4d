import pytest

from stoker.report.metrics import read_evaluations, read_metrics


def test_totals_are_exact_over_all_rows(row):
    metrics = read_metrics(row(step, seconds=0.25) for step in range(1, 5001))
    assert (metrics.rows, metrics.last_step, metrics.samples) == (5000, 5000, 320_000)
    assert metrics.seconds == 1250.0
    phases = {"data": 500.0, "forward": 500.0, "backward": 1000.0, "optimizer": 250.0}
    assert metrics.phases == pytest.approx(phases)
    assert len(metrics.rates) == 5000
    assert set(metrics.curves) == {"loss", "lr", "grad_norm", "accuracy", "throughput"}


def test_what_was_never_recorded_is_left_out_and_not_zero(row):
    rows = [row(step, data=..., grad_norm=..., samples=...) for step in range(1, 4)]
    metrics = read_metrics(rows)
    assert set(metrics.phases) == {"forward", "backward", "optimizer"}
    assert "grad_norm" not in metrics.curves
    assert "throughput" not in metrics.curves
    assert len(metrics.rates) == 0


def test_values_that_are_no_numbers_are_left_out(row):
    odd = {"loss": "high", "note": "text", "flag": True, "nested": {"a": 1}, "samples": None}
    metrics = read_metrics([row(1, seconds=-1, **odd)])
    assert set(metrics.curves) == {"lr", "grad_norm", "accuracy"}
    assert metrics.seconds == 0


def test_nan_and_null_losses_are_told_apart():
    losses = [float("nan"), None, 1.0]
    metrics = read_metrics({"step": step, "loss": loss} for step, loss in enumerate(losses, start=1))
    assert metrics.curves["loss"].rows == 2
    assert metrics.curves["loss"].bad == 1


def test_a_resumed_run_counts_both_times_and_draws_the_later(row):
    rows = [row(step, loss=1.0) for step in range(1, 9)] + [row(step, loss=2.0) for step in range(6, 11)]
    metrics = read_metrics(rows)
    assert (metrics.rows, metrics.last_step, metrics.repeated) == (13, 10, 3)
    assert metrics.seconds == 13 * 0.5
    drawn = {point.step: point.value for point in metrics.curves["loss"].extremes}
    assert drawn == {**dict.fromkeys(range(1, 6), 1.0), **dict.fromkeys(range(6, 11), 2.0)}


def test_skipped_steps_are_counted(row):
    assert read_metrics([row(1, skipped=True), row(2, skipped=False), row(3)]).skipped == 1


def test_steps_may_begin_at_zero_or_be_missing():
    metrics = read_metrics([{"step": 0, "loss": 1.0}, {"step": 1, "loss": 1.0}, {"loss": 1.0}])
    assert (metrics.last_step, metrics.repeated) == (2, 0)


def test_of_two_evaluations_at_one_step_the_later_one_is_drawn():
    rows = [{"step": 10, "accuracy": 0.5, "seconds": 2}, {"step": 10, "accuracy": 0.6, "seconds": 3}]
    evaluations = read_evaluations(rows)
    assert (evaluations.rows, evaluations.seconds) == (2, 5.0)
    assert [tuple(point) for point in evaluations.curves["accuracy"].means] == [(10, 0.6)]


def test_no_rows():
    assert read_metrics([]).last_step == 0
    assert read_evaluations([]).rows == 0
