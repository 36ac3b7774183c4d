"""Bars with a range: text and SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from stoker.report.bars import Bar, bar_chart, rough, text_bars

BARS = [Bar("fast", 100, 50, 200), Bar("slower & older", 10, 5, 20, colour=1), Bar("none", None, note="does not fit")]


def test_a_line_for_each_bar_with_its_three_parts():
    first, second, third = text_bars(BARS, width=20)
    assert first == "fast            " + "█" * 5 + "▒" * 5 + "░" * 10 + "  100 (50 to 200)"
    assert second == "slower & older  ▒░                    10 (5 to 20)"  # too short for a solid part
    assert third == "none" + " " * 34 + "does not fit"


def test_plain_signs_where_there_is_no_unicode():
    assert all(line.isascii() for line in text_bars(BARS, unicode=False))


def test_nothing_to_draw():
    assert text_bars([]) == []
    assert text_bars([Bar("a", None, note="not known")], width=4) == ["a        not known"]
    ET.fromstring(bar_chart("nothing", [], key="k"))


def test_the_chart_is_drawn_to_scale_and_says_itself_in_words():
    root = ET.fromstring(bar_chart("Samples/s", BARS, key="k"))
    fast, slow = (float(bar.attrib["width"]) for bar in root.findall("rect"))
    assert fast / slow == 10
    words = root.find("desc").text
    assert "fast: 100 (50 to 200)." in words
    assert "slower & older: 10 (5 to 20)." in words
    assert "none: does not fit." in words


def test_three_digits():
    assert [rough(value) for value in (None, 12345.6, 1.23456, 0.001234)] == ["–", "12,300", "1.23", "0.00123"]


values = st.lists(st.floats(1e-3, 1e9), min_size=3, max_size=3).map(sorted)


@given(st.lists(values, min_size=1, max_size=6), st.integers(8, 60))
def test_bars_stay_within_their_width(ranges, width):
    bars = [Bar("x", expected, low, high) for low, expected, high in ranges]
    blocks = [line[3 : 3 + width].rstrip() for line in text_bars(bars, width=width)]
    assert max(map(len, blocks)) == width  # the longest fills it
    ET.fromstring(bar_chart("t", bars, key="k"))
