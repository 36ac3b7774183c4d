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


def test_what_is_busy_for_a_part_of_its_time_is_paler():
    spans = [Drawn(0, 0.0, 0.5, "a", 0, busy=0.2), Drawn(0, 0.5, 1.0, "b", 0, busy=0.5), Drawn(0, 1, 2, "c", 0, 0.01)]
    text = span_chart("Streams", ["compute"], spans, key="k")
    assert [span.get("fill-opacity") for span in drawn(text)] == ["0.40", None, "0.25"]
    assert "a: 500 ms from 0 s, busy 40 %" in text
    assert "compute busy 36 %" in text


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
