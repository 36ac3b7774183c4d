"""Spans of time as a picture: what stands where."""

from __future__ import annotations

from xml.etree import ElementTree

from stoker.report.spans import BESIDE, RIGHT, WIDTH, Drawn, span_chart, span_legend

SPANS = [Drawn(0, 0.0, 0.5, "forward <1>", 0), Drawn(1, 0.25, 0.5, "all_reduce", 1)]


def drawn(text):
    return [rect for rect in ElementTree.fromstring(text).iter("rect") if rect.find("title") is not None]


def test_spans_lie_on_their_rows():
    text = span_chart("Streams", ["compute", "wire"], SPANS, key="k")
    first, second = drawn(text)
    assert float(second.get("x")) > float(first.get("x")) == 0
    assert float(second.get("y")) > float(first.get("y"))
    assert float(first.get("width")) == 2 * float(second.get("width")) == WIDTH - RIGHT
    assert first.find("title").text == "forward <1>: 500 ms from 0 s"
    assert "compute busy 100 %, wire busy 50 %" in text
    assert ">wire, busy 50 %<" in text
    assert ">500 ms<" in text


def test_short_names_stand_beside_their_rows():
    text = span_chart("Pipeline", ["stage 0", "stage 1"], [Drawn(1, 0, 4, "a", 0)], key="k", beside=True)
    (span,) = drawn(text)
    assert float(span.get("x")) == BESIDE
    assert ">stage 1<" in text
    assert ">4 s<" in text  # seconds, where there are any


def test_the_legend_names_the_kinds_that_occur():
    assert [one.name for one in span_legend(["forward", "wire", "unused"], SPANS)] == ["forward", "wire"]


def test_nothing_at_all_is_a_picture_too():
    ElementTree.fromstring(span_chart("Streams", [], [], key="k"))
    assert span_legend(["forward"], []) == ()
