import pytest

from stoker.report.curve import Point
from stoker.report.headline import tiles
from stoker.report.runfolder import read_run
from stoker.report.summary import describe, main_metric, steady_rate, summarize


def summary_of(folder):
    return summarize(read_run(folder))


def test_the_figures_of_a_finished_run(make_run):
    summary = summary_of(make_run())
    assert summary.state == "finished"
    assert (summary.steps, summary.epoch, summary.samples, summary.restarts) == (40, 4.0, 2560, 0)
    assert summary.wall_seconds == 40.0
    assert summary.steady_rate == summary.mean_rate == 128.0
    assert summary.devices == "2 × Test GPU"
    assert summary.what == "image-classification, model resnet18"
    assert summary.main is not None
    assert (summary.main.name, summary.main.split) == ("accuracy", "evaluation")
    assert summary.main.best == Point(40, 0.4)


def test_time_by_phase_adds_up_to_the_wall_time(make_run):
    phases = summary_of(make_run()).phases
    assert {phase.phase: pytest.approx(phase.seconds) for phase in phases} == {
        "data": 4.0,
        "forward": 4.0,
        "backward": 8.0,
        "optimizer": 2.0,
        "evaluation": 8.0,
        "checkpoint": 1.0,
        "other": 13.0,
    }
    assert sum(phase.share for phase in phases) == pytest.approx(1)


def test_steady_throughput_leaves_out_the_first_tenth():
    assert steady_rate([1.0] * 10 + [100.0] * 90) == 100.0
    assert steady_rate([1.0, 3.0, 9.0]) == 6.0  # of three, one is a tenth rounded up
    assert steady_rate([5.0]) == 5.0
    assert steady_rate([]) is None


def test_slow_first_steps_lower_the_mean_and_not_the_median(make_run, row):
    rows = [row(step, seconds=5.0 if step == 1 else 0.5) for step in range(1, 101)]
    summary = summary_of(make_run(rows=rows))
    assert summary.steady_rate == 128.0
    assert summary.mean_rate == pytest.approx(6400 / 54.5)


def event(name, time, **more):
    return {"event": name, "time": time, **more}


@pytest.mark.parametrize(
    ("events", "failure", "state"),
    [
        ([], None, "unfinished"),
        ([event("start", 1)], None, "unfinished"),
        ([event("start", 1), event("end", 9)], None, "finished"),
        ([event("start", 1), event("stop", 9)], None, "stopped"),
        ([event("start", 1), event("stop", 9), event("end", 9)], None, "stopped"),
        ([event("start", 1), event("stop", 9), event("resume", 20), event("end", 30)], None, "finished"),
        ([event("start", 1), event("stop", 9), event("resume", 20)], None, "unfinished"),
        ([event("start", 1)], {"time": 5}, "failed"),
        ([event("start", 1)], {}, "failed"),
        ([], {"time": 5}, "failed"),
        ([event("start", 1), event("resume", 20), event("end", 30)], {"time": 5}, "finished"),
        ([event("start", 1), event("resume", 20)], {"time": 25}, "failed"),
    ],
)
def test_the_state_is_how_the_last_attempt_ended(make_run, events, failure, state):
    assert summary_of(make_run(events=events, failure=failure)).state == state


def test_pauses_between_attempts_are_no_wall_time(make_run, row):
    events = [event("start", 100), event("stop", 160), event("resume", 1000), event("end", 1040)]
    summary = summary_of(make_run(rows=[row(1)], events=events))
    assert summary.wall_seconds == 100.0
    assert summary.restarts == 1


def test_a_killed_run_took_at_least_the_time_that_was_measured(make_run):
    assert summary_of(make_run(events=[event("start", 100)])).wall_seconds == 40 * 0.5 + 4 * 2.0


def test_a_failure_ends_the_wall_time(make_run, row):
    folder = make_run(rows=[row(1)], events=[event("start", 100)], failure={"time": 150})
    assert summary_of(folder).wall_seconds == 50


def test_metrics_know_their_direction_and_their_best(make_run, row):
    values = [(3.0, 0.1), (1.0, 0.3), (2.0, 0.2)]
    rows = [row(step, loss=loss, top5_error=error) for step, (loss, error) in enumerate(values, start=1)]
    metrics = {(m.split, m.name): m for m in summary_of(make_run(rows=rows)).metrics}
    assert metrics["training", "loss"].best == Point(2, 1.0)
    assert metrics["training", "loss"].last == Point(3, 2.0)
    assert metrics["training", "top5_error"].best == Point(1, 0.1)
    assert not {name for _, name in metrics} & {"lr", "throughput", "grad_norm"}


def test_without_evaluations_the_headline_is_of_training(make_run):
    folder = make_run()
    (folder / "evaluations.jsonl").unlink()
    main = summary_of(folder).main
    assert main is not None
    assert (main.name, main.split) == ("accuracy", "training")
    assert main_metric([]) is None


def test_notices_name_what_weakens_the_figures(make_run, row):
    rows = [row(1), row(2, loss=float("nan")), row(2, skipped=True)]
    assert summary_of(make_run(rows=rows)).notices == (
        "loss (training) was not finite 1 time, first at step 2",
        "1 step skipped because fp16 overflowed: the loss scale was lowered",
        "1 step done twice, after a resume: totals count both, curves show the later",
    )


def test_tiles_show_the_data(make_run):
    shown = {tile.label: (tile.value, tile.detail) for tile in tiles(summary_of(make_run()))}
    assert shown == {
        "Accuracy (evaluation)": ("0.4", "best 0.4 at step 40"),
        "Loss (evaluation)": ("0.025", "best 0.025 at step 40"),
        "Throughput": ("128 samples/s", "mean 128, 64 on each of 2 ranks"),
        "Wall time": ("40 s", "no restart"),
        "Steps": ("40", "epoch 5, 2,560 samples"),
    }


def test_tiles_of_an_empty_run_are_unknown_and_not_zero(tmp_path):
    (tmp_path / "spec.yaml").touch()
    shown = {tile.label: tile.value for tile in tiles(summary_of(tmp_path))}
    assert shown == {"Throughput": "–", "Wall time": "–", "Steps": "0"}


def test_waiting_behind_computing_is_no_time_that_went_into_waiting(make_run, row):
    rows = [row(step, seconds=0.8, data=0.5, forward=0.25, backward=0.5, optimizer=0.01) for step in range(1, 11)]
    seconds = {phase.phase: phase.seconds for phase in summary_of(make_run(rows=rows)).phases}
    assert seconds["data"] == pytest.approx(10 * (0.8 - 0.25 - 0.5 - 0.01))
    assert seconds["forward"] == pytest.approx(2.5)


def test_one_named_device_stands_for_itself(tmp_path):
    (tmp_path / "environment.json").write_text('{"device": "Test GPU", "world_size": 4}')
    assert summary_of(tmp_path).devices == "Test GPU"


def test_describe_takes_what_the_spec_says():
    assert describe({"task": "my.module:Task"}) == "my.module:Task"
    assert describe({"task": {"kind": "lm", "model": {"name": "gpt"}, "layers": 2}}) == "lm, model gpt"
    assert describe({"task": {"use": "a.py:B", "options": {"model": "resnet50"}}}) == "a.py:B, model resnet50"
    assert describe({}) == ""
