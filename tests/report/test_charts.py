import json
import math
import re
from xml.etree import ElementTree

import pytest

from stoker.report.charts import LEFT, RIGHT, TOP, WIDTH, Across, Line, Part, line_chart, stacked_bar
from stoker.report.curve import Point


def parsed(svg):
    return ElementTree.fromstring(svg)


def paths(svg, kind):
    return [element.get("d") for element in parsed(svg).iter("path") if element.get("class") == kind]


def straight(count=10):
    return [Point(step, float(step)) for step in range(1, count + 1)]


def test_a_line_runs_from_corner_to_corner_of_its_axes():
    (path,) = paths(line_chart("t", [Line("a", [Point(0, 0.0), Point(10, 100.0)])], key="k"), "main")
    (x0, y0), (x1, y1) = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", path)]
    assert (x0, x1) == (LEFT, WIDTH - RIGHT)
    assert (y1, y0) == (TOP, 212)


def test_title_and_description_are_there_for_those_who_do_not_see():
    root = parsed(line_chart("Loss", [Line("training", straight())], key="c7"))
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "c7-t c7-d"
    assert root.find("title").text == "Loss"
    assert root.find("desc").text == "training: 1 at step 1, 10 at step 10, lowest 1, highest 10."


def test_a_gap_lifts_the_pen_and_is_marked():
    points = [Point(1, 1.0), Point(2, math.nan), Point(3, math.inf), Point(4, 2.0), Point(5, 3.0)]
    svg = line_chart("t", [Line("a", points)], key="k")
    assert paths(svg, "main")[0].count("M") == 2
    assert len(paths(svg, "bad")) == 1
    assert "a: not finite from step 2 to 3" in svg
    assert "2 gaps" in svg


def test_a_lone_point_between_gaps_is_a_dot():
    svg = line_chart("t", [Line("a", [Point(1, math.nan), Point(2, 1.0), Point(3, math.nan)])], key="k")
    assert paths(svg, "main")[0].endswith("h0")


def test_a_trend_puts_the_raw_values_behind_it():
    svg = line_chart("t", [Line("a", straight(), trend=straight())], key="k")
    assert len(paths(svg, "raw")) == len(paths(svg, "main")) == 1
    assert svg.index('class="raw"') < svg.index('class="main"')


def test_evaluations_are_dots():
    circles = list(parsed(line_chart("t", [Line("a", straight(4), dots=True)], key="k")).iter("circle"))
    assert len(circles) == 4


def test_values_for_the_read_out_equal_the_data():
    lines = [
        Line("a", straight(3)),
        Line("b", [Point(2, 0.123456789), Point(3, math.nan)], width=4, colour=9),
    ]
    data = json.loads(parsed(line_chart("t", lines, key="k")).get("data-chart"))
    assert data["series"] == [
        {"colour": 0, "width": 1, "points": [[1, 1.0], [2, 2.0], [3, 3.0]]},
        {"colour": 1, "width": 4, "points": [[2, 0.123457]]},
    ]


def test_decades_get_a_logarithmic_axis_and_the_description_says_so():
    svg = line_chart("t", [Line("a", [Point(1, 2.0), Point(2, 0.002)])], key="k")
    labels = [element.text for element in parsed(svg).iter("text")]
    assert {"0.01", "0.1", "1"} <= set(labels)
    assert "Logarithmic axis." in svg
    assert json.loads(parsed(svg).get("data-chart"))["log"]


def test_there_is_no_half_step_on_the_axis():
    labels = [element.text for element in parsed(line_chart("t", [Line("a", straight(2))], key="k")).iter("text")]
    assert labels[labels.index("step") :] == ["step", "1", "2"]


@pytest.mark.parametrize(
    "points",
    [[], [Point(1, math.nan)], [Point(1, 0.0)], [Point(5, 1e308), Point(6, -1e308)]],
)
def test_any_points_make_a_well_formed_chart(points):
    svg = line_chart("t", [Line("a", points)], key="k")
    parsed(svg)
    assert "nan" not in re.sub(r"<(title|desc).*?</\1>", "", svg).lower()


def test_names_are_escaped():
    svg = line_chart("<b>&", [Line('"><script>', straight())], key="k")
    assert parsed(svg).find("title").text == "<b>&"
    assert "<script>" not in svg


def test_many_runs_differ_by_colour_and_then_by_dashes():
    svg = line_chart("t", [Line(str(index), straight(), colour=index) for index in range(10)], key="k")
    strokes = [(g.get("stroke"), g.get("stroke-dasharray")) for g in parsed(svg).iter("g") if g.get("stroke")]
    assert len(set(strokes)) == 10


def test_a_bar_is_divided_in_proportion():
    svg = stacked_bar("Time", [Part("a", 1.0, 0), Part("none", 0.0, 1), Part("b", 3.0, 2)], key="k")
    widths = [float(rect.get("width")) for rect in parsed(svg).iter("rect")]
    assert widths == [WIDTH / 4, WIDTH * 3 / 4]
    assert parsed(svg).find("desc").text == "a 25 %, b 75 %"


def test_a_bar_of_nothing_is_well_formed():
    assert parsed(stacked_bar("Time", [], key="k")).find("desc").text == "No values."


def test_a_range_is_shaded_and_counts_for_the_axis():
    points = [Point(1, 5.0), Point(2, 6.0)]
    line = Line("a", points, low=[Point(1, 4.0), Point(2, 3.0)], high=[Point(1, 8.0), Point(2, 20.0)])
    svg = line_chart("t", [line], key="k", log=False)
    (band,) = paths(svg, "band")
    corners = [tuple(map(float, pair)) for pair in re.findall(r"[ML]([\d.]+) ([\d.]+)", band)]
    assert len(corners) == 4
    assert corners[1][1] < corners[0][1] < corners[3][1] < corners[2][1]  # high ends, then low ones from the right
    assert min(y for _, y in corners) >= TOP


def test_another_axis_has_its_own_words_and_places():
    over = Across("", "{} GPUs", ticks=[8, 16, 64], log=True)
    svg = line_chart("t", [Line("a", [Point(8, 1.0), Point(16, 2.0), Point(64, 4.0)], dots=True)], key="k", over=over)
    root = parsed(svg)
    assert root.find("desc").text.startswith("a: 1 at 8 GPUs, 4 at 64 GPUs")
    places = [float(circle.get("cx")) for circle in root.iter("circle")]
    assert places[2] - places[1] == pytest.approx(2 * (places[1] - places[0]), abs=0.2)  # two doublings
    data = json.loads(root.get("data-chart"))
    assert (data["across"], data["said"]) == (True, "{} GPUs")
    assert {"8", "16", "64"} <= {text.text for text in root.iter("text")}
    assert "step" not in svg
