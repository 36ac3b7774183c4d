"""Stacked areas and spans as pictures: what stands where."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from stoker.report.areas import BOTTOM as LOW
from stoker.report.areas import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Layer, Level, Stretch, area_chart
from stoker.report.spans import Drawn, span_chart

LAYERS = [Layer("weights", [1.0, 1.0, 1.0], 0), Layer("<activations>", [0.0, 3.0, 1.0], 3), Layer("none", [0.0] * 3, 1)]


def chart(**changes):
    given = {"key": "k", "unit": "GiB", "end": 30.0, **changes}
    return area_chart("Memory", [0.0, 10.0, 20.0], LAYERS, **given)


def points(path):
    return [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]


def test_layers_stand_on_each_other_in_steps():
    picture = ElementTree.fromstring(chart())
    areas = [path for path in picture.iter("path") if path.get("fill", "").startswith("var")]
    assert len(areas) == 2  # a layer that is always empty is not drawn
    upper = points(areas[1].get("d"))
    plot = HEIGHT - TOP - LOW
    top = HEIGHT - LOW - plot * 4.0 / 4.0  # 4 GiB, the highest tick
    assert min(y for _, y in upper) == round(top, 1)
    left = [x for x, y in upper if y == round(top, 1)]
    third = (WIDTH - LEFT - RIGHT) / 3
    assert (min(left), max(left)) == (round(LEFT + third, 1), round(LEFT + 2 * third, 1))


def test_it_says_in_words_what_it_shows_and_escapes_names():
    text = chart()
    assert "weights at most 1 GiB, &lt;activations&gt; at most 3 GiB" in text
    ElementTree.fromstring(text)


def test_levels_stretches_and_the_peak():
    text = chart(
        levels=[Level("room", [6.0], dashed=True)], stretches=[Stretch("forward", 0), Stretch("x", 29.9)], mark=10
    )
    assert text.count("stroke-dasharray") == 2  # the line and its legend
    assert ">room<" in text
    assert ">forward<" in text
    assert ">x<" not in text  # too narrow for its name
    assert ">peak<" in text


def test_nothing_at_all_is_a_picture_too():
    ElementTree.fromstring(area_chart("Memory", [], [Layer("a", [], 0)], key="k", unit="GiB", end=0))
    ElementTree.fromstring(span_chart("Streams", [], [], ["forward"], key="k"))


def test_spans_lie_on_their_rows_with_their_colours_explained():
    spans = [Drawn(0, 0.0, 0.5, "forward <1>", 0), Drawn(1, 0.25, 0.5, "all_reduce", 1)]
    text = span_chart("Streams", ["compute", "wire"], spans, ["forward", "communication", "unused"], key="k")
    picture = ElementTree.fromstring(text)
    first, second = [rect for rect in picture.iter("rect") if rect.find("title") is not None]
    assert float(second.get("x")) > float(first.get("x"))
    assert float(second.get("y")) > float(first.get("y"))
    assert float(first.get("width")) == 2 * float(second.get("width"))
    assert first.find("title").text == "forward <1>: 500 ms from 0 s"
    assert "compute busy 100 %, wire busy 50 %" in text
    assert "unused" not in text
