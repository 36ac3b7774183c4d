"""Cards of a page: a bar that may leave some of the whole over, and all kinds of content in one page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from stoker.report.charts import WIDTH, Part
from stoker.report.html import render_page
from stoker.report.panels import LegendEntry, split_of
from stoker.report.sections import Section, Table
from tests.report.test_html import Page

PARTS = [(Part("weights", 30.0, 0), "30 GiB"), (Part("rest", 10.0, 1), "10 GiB")]


@pytest.mark.parametrize(
    ("whole", "shares"), [(80.0, ["38 %", "12 %"]), (None, ["75 %", "25 %"]), (5.0, ["75 %", "25 %"])]
)
def test_shares_are_of_the_whole_unless_the_parts_are_more(whole, shares):
    split = split_of("Memory", PARTS, key="k", whole=whole)
    assert [(row.name, row.share, row.amount) for row in split.rows] == [
        ("weights", shares[0], "30 GiB"),
        ("rest", shares[1], "10 GiB"),
    ]
    width = sum(float(rect.get("width")) for rect in ElementTree.fromstring(split.svg).iter("rect"))
    assert width == pytest.approx(WIDTH * min(1, 40 / (whole or 40)))


def test_a_page_of_sections():
    sections = [
        Section("Bar <1>", split=split_of("Memory", PARTS, key="k")),
        Section("Values", table=Table(("name", "value"), [("a & b", "1")]), note="a note"),
        Section("Picture", picture="<svg></svg>", legend=[LegendEntry("forward", "", "red", dots=True)]),
    ]
    words = {"title": "t", "what": "w", "notes": ["mind"], "assumptions": ["assumed"], "badge": ("failed", "no")}
    page = Page(render_page("plan.html.j2", sections=sections, **words))
    assert "Bar <1>" in page.text
    assert "weights 75 % 30 GiB rest 25 % 10 GiB" in page.text
    assert "name value a & b 1 a note" in page.text
    assert "Picture forward" in page.text
    assert "mind What was assumed assumed" in page.text
    assert page.fetched == ["data:,"]
