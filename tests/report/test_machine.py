import json

from stoker.report.machine import report_json
from stoker.report.runfolder import read_runs


def test_the_figures_are_those_of_the_run(make_run):
    whole = json.loads(report_json(read_runs([make_run("a"), make_run("b", lr=0.5)])))
    assert whole["format"] == 1
    assert whole["differing"] == {"optimizer.lr": ["0.1", "0.5"]}
    first = whole["runs"][0]
    assert (first["name"], first["state"], first["steps"], first["wall_seconds"]) == (
        "a",
        "finished",
        40,
        40.0,
    )
    assert first["throughput"] == {"steady": 128.0, "mean": 128.0}
    assert first["main"]["best"] == {"step": 40, "value": 0.4}
    assert {time["phase"]: time["seconds"] for time in first["time"]}["evaluation"] == 8.0
    assert first["checkpoints"] == [20, 40]
    assert first["failure"] is None


def test_what_is_not_finite_or_unknown_is_null(make_run, row, tmp_path):
    text = report_json(read_runs([make_run(rows=[row(1, loss=float("nan"), seconds=...)])]))
    run = json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(AssertionError(name)))["runs"][0]
    loss = next(metric for metric in run["metrics"] if (metric["split"], metric["name"]) == ("training", "loss"))
    assert loss["last"] == {"step": 1, "value": None}
    assert loss["best"] is None
    assert loss["not_finite"] == 1
    assert run["throughput"] == {"steady": None, "mean": None}


def test_a_setting_that_only_one_run_has_is_null_in_the_others(make_run):
    runs = [make_run("a"), make_run("b")]
    (runs[1] / "spec.yaml").write_text((runs[1] / "spec.yaml").read_text() + "extra: null\n")
    assert json.loads(report_json(read_runs(runs)))["differing"] == {"extra": [None, "null"]}


def test_a_failure_comes_with_its_findings(make_run):
    run = make_run(failure={"kind": "oom", "findings": [{"title": "full", "state": "fail"}]})
    failure = json.loads(report_json(read_runs([run])))["runs"][0]["failure"]
    assert failure["kind"] == "oom"
    assert failure["findings"][0]["title"] == "full"
