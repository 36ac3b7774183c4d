import doctest
import math

import pytest

from stoker.report import advice, charts, curve, figures, headline, plot, scale, summary


@pytest.mark.parametrize("module", [advice, charts, curve, figures, headline, plot, scale, summary])
def test_the_examples_in_the_docstrings_hold(module):
    results = doctest.testmod(module)
    assert results.failed == 0


def test_every_size_of_number_is_readable():
    assert figures.number(0) == "0"
    assert figures.number(-0.5) == "-0.5"
    assert figures.number(1234.5) == "1,234"
    assert figures.number(math.nan) == "NaN"
    assert figures.number(-math.inf) == "-inf"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.9999, "1 s"),
        (59.97, "1 min"),
        (3599.7, "1 h"),
        (7200, "2 h"),
        (math.inf, "–"),
    ],
)
def test_durations_at_the_edges_of_units(seconds, text):
    assert figures.duration(seconds) == text


def test_a_share_is_never_rounded_to_a_zero_that_it_is_not():
    assert figures.percent(0.0001) == "< 0.1 %"
    assert figures.percent(0.0996) == "10 %"


def test_a_clock_that_was_never_set_is_unknown():
    assert figures.moment(1e300) == figures.UNKNOWN


def test_clean_keeps_line_ends_and_drops_what_a_terminal_would_obey():
    assert figures.clean("a\r\nb\x1b]0;title\x07\x00\ud800c\td") == "a\nb?c\td"


def test_empty_sections_stay_visible_when_flattened():
    tree = {"memory": {}, "data": {"x": {"y": [1, None]}}}
    assert figures.flatten(tree) == {"memory": "{}", "data.x.y": "[1, null]"}
