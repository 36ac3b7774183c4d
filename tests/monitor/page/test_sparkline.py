from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from stoker.monitor.page.sparkline import HEIGHT, POINTS, sparkline

NAN = math.nan


def drawn(values: list[float], **changed: float) -> ET.Element:
    return ET.fromstring(
        sparkline(values, low=changed.get("low", 0), high=changed.get("high", 1), colour=0, title="<&>")
    )


def path(svg: ET.Element, name: str) -> str:
    return next((one.attrib["d"] for one in svg.findall("path") if one.attrib["class"] == name), "")


def test_high_is_up_and_a_flat_stretch_has_only_its_ends() -> None:
    assert path(drawn([0, 0, 0, 0, 1]), "line") == "M0 30 3 30 4 2"


def test_a_gap_lifts_the_pen_and_a_lone_value_is_a_dot() -> None:
    assert path(drawn([0, 0, NAN, 1, NAN]), "line") == "M0 30 1 30M3 2h0"


def test_the_present_has_a_dot_unless_it_is_unknown() -> None:
    assert path(drawn([0, 1]), "now") == "M1 2h0"
    assert path(drawn([0, NAN]), "now") == ""


def test_nothing_known_is_only_a_base_line() -> None:
    svg = drawn([NAN, NAN])
    assert [one.attrib["class"] for one in svg.findall("path")] == ["base"]


def test_its_title_is_escaped_and_it_is_an_image() -> None:
    svg = drawn([1])
    assert svg.findtext("title") == "<&>"
    assert svg.attrib["role"] == "img"


@given(
    st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=400),
    st.floats(-1e300, 1e300),
    st.floats(-1e300, 1e300),
)
def test_any_values_stay_inside(values: list[float], low: float, high: float) -> None:
    svg = drawn(values, low=low, high=high)
    for x, y in re.findall(r"(\d+) (\d+)", path(svg, "line")):
        assert 0 <= int(x) < POINTS
        assert 0 <= int(y) <= HEIGHT
