from io import StringIO

import pytest
from rich.console import Console

from stoker.report.curve import Point
from stoker.report.plot import sparkline, text_plot
from stoker.report.runfolder import read_run, read_runs
from stoker.report.terminal import print_comparison, print_report


class Narrow(StringIO):
    """A stream that can carry ASCII only."""

    encoding = "ascii"

    def write(self, text):
        text.encode("ascii")
        return super().write(text)


def shown(records, *, width=80, file=None, **settings):
    console = Console(file=file or StringIO(), width=width, **settings)
    if len(records) == 1:
        print_report(records[0], console)
    else:
        print_comparison(records, console)
    return console.file.getvalue()


@pytest.fixture
def runs(make_run):
    return read_runs([make_run("base"), make_run("more", lr=0.2, steps=50), make_run("third", workers=8)])


def test_one_run_is_summed_up(runs):
    text = shown(runs[:1])
    for words in (
        "base  finished",
        "image-classification, model resnet18 · 2 × Test GPU · bf16",
        "128 samples/s",
        "best 0.4 at step 40",
        "loss (training)",
        "backward     20 %   8 s",
        "start-up",
    ):
        assert words in text, words
    assert "\x1b" not in text


def test_a_failure_is_named_with_its_fix_and_brackets_stay(make_run):
    finding = {"title": "It is full", "fix": ["use [/bold] less"], "evidence": [{"text": "[red]line"}]}
    failure = {"kind": "oom", "step": 3, "rank": 1, "message": "tensor[0]", "findings": [finding]}
    text = shown([read_run(make_run(failure=failure))])
    for words in ("oom at step 3, rank 1", "tensor[0]", "It is full", "  [red]line", "1. use [/bold] less"):
        assert words in text, words


def test_the_comparison_marks_the_best_and_lists_only_what_differs(runs):
    text = shown(runs)
    lines = {line.split("  ")[0]: line.split() for line in text.splitlines()}
    assert lines["accuracy (evaluation), best"][-4:] == ["0.4", "★", "0.5", "0.4"]
    assert lines["data.workers"] == ["data.workers", "2", "2", "8"]
    assert lines["optimizer.lr"] == ["optimizer.lr", "0.1", "0.2", "0.1"]
    assert "seed" not in lines
    assert "output.folder" not in lines


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(runs, width):
    for records in (runs[:1], runs):
        lines = shown(records, width=width).splitlines()
        assert max(map(len, lines)) <= width


def test_what_does_not_fit_side_by_side_comes_in_several_tables(runs):
    text = shown(runs, width=50)
    assert text.count("State ") > 1
    for name in ("base", "more", "third"):
        assert name in text


def test_a_terminal_that_knows_only_ascii_gets_ascii(runs, make_run):
    for records in (runs[:1], runs):
        text = shown(records, file=Narrow())
        assert "2 x Test GPU" in text or len(records) > 1
    assert "*" in text


def test_colour_is_used_where_there_is_a_terminal(runs):
    assert "\x1b[1;32mfinished" in shown(runs[:1], force_terminal=True, color_system="standard")


def test_an_empty_run_prints(tmp_path):
    (tmp_path / "spec.yaml").touch()
    text = shown(read_runs([tmp_path]))
    assert "unfinished" in text
    assert "No times were recorded." in text


def test_a_plot_falls_from_left_to_right():
    lines = text_plot([Point(step, 10.0 - step) for step in range(10)], width=20, height=4, unicode=False)
    assert len(lines) == 5
    columns = [line.index("*") for line in lines[:4]]
    assert columns == sorted(columns)
    assert lines[0].startswith("10 |*")
    assert lines[4].split() == ["step", "0", "9"]


def test_a_braille_plot_has_the_width_it_is_given():
    lines = text_plot([Point(step, float(step % 5)) for step in range(100)], width=40, height=6)
    assert len(lines) == 7
    assert max(map(len, lines)) == 40


def test_a_plot_without_finite_values_is_nothing():
    assert text_plot([Point(1, float("nan"))], width=40, height=6) == []
    assert sparkline([Point(1, float("inf"))], width=4) == ""


def test_a_sparkline_shows_gaps_as_blanks():
    nan = float("nan")
    assert sparkline([Point(0, 1.0), Point(1, nan), Point(2, 2.0)], width=3) == "▁ █"
