from stoker.report.compare import differing_settings, figure_rows, run_labels, settings_by_section
from stoker.report.runfolder import read_runs
from stoker.report.summary import summarize


def rows_of(folders):
    return {row.label: row for row in figure_rows([summarize(record) for record in read_runs(folders)])}


def test_equal_folder_names_are_told_apart_by_their_parents(make_run):
    assert run_labels(read_runs([make_run("x/run"), make_run("y/run"), make_run("z")])) == [
        "x/run",
        "y/run",
        "z",
    ]
    same = make_run("same")
    assert run_labels(read_runs([same, same]))[1].endswith("same #2")


def test_only_keys_that_differ_are_listed(make_run):
    records = read_runs([make_run("a", seed=1, workers=2), make_run("b", seed=1, workers=4)])
    assert differing_settings(records) == {"data.workers": ("2", "4")}


def test_the_best_of_each_row_is_marked_by_its_direction(make_run):
    rows = rows_of([make_run("a", steps=40), make_run("b", steps=60)])
    assert rows["loss (evaluation), best"].best == {1}
    assert rows["accuracy (evaluation), last"].best == {1}
    assert rows["Steps"].best == frozenset()


def test_less_time_is_no_merit_where_less_was_done(make_run):
    events = [{"event": "start", "time": 0}, {"event": "end", "time": 300}]
    assert rows_of([make_run("a"), make_run("b", steps=80)])["Wall time"].best == frozenset()
    assert rows_of([make_run("c"), make_run("d", events=events)])["Wall time"].best == {0}


def test_a_value_that_is_not_finite_is_never_the_best(make_run, row):
    nan = make_run("a", rows=[row(1, loss=float("nan"))])
    rows = rows_of([nan, make_run("b", rows=[row(1, loss=2.0)]), make_run("c", rows=[row(1, loss=3.0)])])
    assert rows["loss (training), last"].cells[0] == "NaN"
    assert rows["loss (training), last"].best == {1}


def test_runs_without_a_metric_show_it_as_unknown(make_run):
    plain = make_run("b")
    (plain / "evaluations.jsonl").unlink()
    assert rows_of([make_run("a"), plain])["accuracy (evaluation), best"].cells == ("0.4", "–")


def test_settings_are_grouped_by_section():
    assert settings_by_section({"seed": 1, "data": {"a": {"b": 2}}}) == {
        "": {"seed": "1"},
        "data": {"a.b": "2"},
    }
