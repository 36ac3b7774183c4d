import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stoker.errors import UserError
from stoker.report.html import render_comparison, render_report
from stoker.report.machine import report_json
from stoker.report.runfolder import MARKS, read_run, read_runs


def test_a_whole_run_is_read(make_run):
    record = read_run(make_run())
    assert record.name == "run"
    assert record.spec["data"] == {"workers": 2}
    assert record.environment["world_size"] == 2
    assert record.metrics.last_step == 40
    assert record.evaluations.rows == 4
    assert [event.event for event in record.events] == ["start", "checkpoint", "end"]
    assert record.checkpoints == (20, 40)
    assert record.failure is None
    assert not record.has_model
    assert record.notes == ()


def test_model_and_logs_are_found(make_run):
    folder = make_run()
    for name in ("model/model.safetensors", "logs/rank1.log", "logs/rank0.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    record = read_run(folder)
    assert record.has_model
    assert record.logs == ("logs/rank0.log", "logs/rank1.log")


@pytest.mark.parametrize("name", MARKS)
def test_any_file_may_be_missing_empty_or_cut_off(make_run, name):
    failure = {"rank": 0, "step": 40, "kind": "error", "message": "broken", "traceback": "", "time": 1.0}
    for damage in ("missing", "empty", "cut"):
        folder = make_run(f"{name}-{damage}", failure=failure)
        text = (folder / name).read_text()
        if damage == "missing":
            (folder / name).unlink()
        else:
            (folder / name).write_text("" if damage == "empty" else text[: len(text) - 3])
        record = read_run(folder)
        assert render_report(record).endswith("</html>\n")
        if name.endswith(".jsonl") and damage == "cut":
            assert any(f"last line of {name}" in note for note in record.notes)
        if name == "failure.json":
            assert (record.failure is None) == (damage == "missing")


def test_a_half_written_line_is_noted_and_the_rest_is_read(make_run):
    record = read_run(make_run(metrics_tail='{"step": 41, "lo'))
    assert record.metrics.last_step == 40
    assert record.notes == ("the last line of metrics.jsonl (line 41) is cut off and was left out",)


def test_lines_that_are_no_objects_are_counted(make_run):
    record = read_run(make_run(metrics_tail="\0\0\0\n[1]\n\n7\n"))
    assert record.metrics.rows == 40
    assert record.notes == (
        "3 of 44 lines of metrics.jsonl are no JSON object and were left out, the first is line 41",
    )


def test_nothing_but_one_file_is_a_run(tmp_path):
    (tmp_path / "events.jsonl").touch()
    record = read_run(tmp_path)
    assert record.metrics.rows == 0
    assert "No step was recorded." in render_report(record)


def test_a_failure_with_findings_is_typed(make_run):
    finding = {
        "state": "fail",
        "cause": "x",
        "title": "It broke",
        "fix": ["mend"],
        "evidence": [{"text": "line", "line": 3}],
    }
    failure = read_run(make_run(failure={"kind": "k", "rank": 1, "findings": [finding, "nonsense"]})).failure
    assert failure is not None
    assert (failure.kind, failure.rank, failure.step) == ("k", 1, None)
    assert failure.findings[0].evidence[0].line == 3
    assert failure.findings[0].fix == ("mend",)
    assert failure.findings[1].state == "unknown"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = """step epoch loss samples seconds data forward time event message rank kind traceback findings devices
packages cpu world_size accuracy skipped evidence fix memory_bytes precision task workers"""
ROWS = st.lists(st.dictionaries(st.sampled_from(KEYS.split()), JSON, max_size=8), max_size=6)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.dictionaries(st.sampled_from(MARKS), ROWS, min_size=1), st.binary(max_size=30))
def test_no_content_breaks_a_report(tmp_path_factory, contents, tail):
    folder = tmp_path_factory.mktemp("run")
    for name, rows in contents.items():
        if name.endswith(".jsonl"):
            text = "".join(json.dumps(row) + "\n" for row in rows)
        else:
            text = json.dumps(rows[0] if rows else [])
        (folder / name).write_bytes(text.encode() + (tail if name.endswith(".jsonl") else b""))
    record = read_run(folder)
    assert render_report(record).encode()
    assert render_comparison([record, record]).encode()
    assert json.loads(report_json([record]))["runs"][0]["name"] == folder.name


def refusal(path):
    with pytest.raises(UserError) as caught:
        read_run(path)
    return str(caught.value)


def test_paths_that_are_no_run_folder_are_refused_with_what_to_give_instead(make_run, tmp_path):
    folder = make_run("runs/one")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    assert "there is no run folder" in refusal(tmp_path / "nothing")
    assert "is a file, not a run folder" in refusal(tmp_path / "file")
    assert f"give its folder, {folder}" in refusal(folder / "metrics.jsonl")
    assert "holds none of spec.yaml" in refusal(tmp_path / "empty")
    assert f"holds some: give one of {folder}" in refusal(tmp_path / "runs")
    assert f"is a part of a run: give the run's folder, {folder}" in refusal(folder / "checkpoints" / "step-00000020")


def test_a_folder_that_may_not_be_read_is_refused(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "iterdir", refuse)  # the tests may run as root, who may read everything
    assert "cannot be read: Permission denied" in refusal(tmp_path)


def test_all_wrong_folders_are_named_at_once(make_run, tmp_path):
    with pytest.raises(UserError) as caught:
        read_runs([tmp_path / "a", make_run(), tmp_path / "b"])
    assert len(caught.value.mistakes) == 2
