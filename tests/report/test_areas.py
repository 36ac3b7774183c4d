"""Stacked areas as pictures: what stands where, and what can be read off."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

from stoker.report.areas import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Layer, Level, Stack, Stretch, area_chart
from stoker.report.areas import area_panel as panel_of

LAYERS = (Layer("weights", [1.0, 1.0, 1.0], 0), Layer("<activations>", [0.0, 3.0, 1.0], 3), Layer("none", [0.0] * 3, 1))
PLACES = [0.0, 10.0, 20.0]


def stack(**changes):
    return Stack(**{"places": PLACES, "end": 30.0, "layers": LAYERS, **changes})


def chart(**changes):
    return area_chart("Memory", stack(**changes), key="k", unit="GiB")


def points(path):
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_layers_stand_on_each_other_in_steps():
    picture = ElementTree.fromstring(chart())
    areas = [path for path in picture.iter("path") if path.get("fill", "").startswith("var")]
    assert len(areas) == 2  # a layer that is always empty is not drawn
    upper = points(areas[1].get("d"))
    assert min(y for _, y in upper) == TOP  # 4 GiB, the highest tick
    left = [x for x, y in upper if y == TOP]
    third = (WIDTH - LEFT - RIGHT) / 3
    assert (min(left), max(left)) == (round(LEFT + third, 1), round(LEFT + 2 * third, 1))


def test_it_says_in_words_what_it_shows_and_escapes_names():
    text = chart()
    assert "weights at most 1 GiB, &lt;activations&gt; at most 3 GiB" in text
    ElementTree.fromstring(text)


def test_parts_have_their_names_above_where_there_is_room():
    parts = [Stretch("forward", 0), Stretch("optimizer", 27.5), Stretch("x", 29.9)]
    text = chart(parts=parts, groups=[Stretch("", 0), Stretch("step 1", 2)])
    assert ">forward<" in text
    assert ">optimizer<" not in text
    assert ">O<" in text  # its initial
    assert ">X<" not in text  # too narrow even for that
    assert ">step 1<" in text


def test_the_peak_is_marked_where_it_is():
    picture = ElementTree.fromstring(chart(mark=1))
    (dot,) = picture.iter("circle")
    third = (WIDTH - LEFT - RIGHT) / 3
    assert (float(dot.get("cx")), float(dot.get("cy"))) == (round(LEFT + third, 1), TOP)
    assert "peak 4 GiB" in chart(mark=1)


def test_a_reader_gets_each_value_the_height_it_is_drawn_at_and_the_name_of_the_part():
    levels = [Level("reserved", [5.0, 5.0, 6.0]), Level("room", [7.0], dashed=True)]
    text = chart(levels=levels, parts=[Stretch("a", 0), Stretch("b", 15)], groups=[Stretch("step 1", 0)])
    assert text.count("stroke-dasharray") == 1
    data = json.loads(ElementTree.fromstring(text).get("data-chart"))
    assert data["plot"] == [LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM]
    assert data["parts"] == [[0, "step 1, a"], [15, "step 1, b"]]
    weights, activations, reserved, room = (line["points"] for line in data["series"])
    assert weights == [[0, 1, 1], [10, 1, 1], [20, 1, 1]]
    assert activations == [[0, 0, 1], [10, 3, 4], [20, 1, 2]]
    assert reserved[2] == [20, 6, 6]
    assert [value for _, value, _ in room] == [7, 7, 7]


def test_the_legend_shows_the_values_at_the_mark_and_is_in_the_order_of_the_series():
    levels = [Level("reserved", [5.0, 5.0, 6.0]), Level("room", [7.0], dashed=True)]
    panel = panel_of("Memory", stack(levels=levels, mark=1), key="k", unit="GiB", note="at the peak")
    assert [(one.name, one.value) for one in panel.legend] == [
        ("weights", "1"), ("<activations>", "3"), ("reserved", "5"), ("room", "7"),
    ]  # fmt: skip
    assert [one.dashed for one in panel.legend] == [False, False, False, True]
    assert len(json.loads(ElementTree.fromstring(panel.svg).get("data-chart"))["series"]) == len(panel.legend)


def test_nothing_at_all_is_a_picture_too():
    ElementTree.fromstring(area_chart("Memory", Stack([], 0, [Layer("a", [], 0)]), key="k", unit="GiB"))
