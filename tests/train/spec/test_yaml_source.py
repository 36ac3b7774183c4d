from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stoker.errors import UserError
from stoker.train.spec.yaml_source import read_value, read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("3E4", 3e4),
        ("-2e+5", -2e5),
        ("1.5e3", 1.5e3),
        (".5e-3", 0.5e-3),
        ("1_0e2", 1e3),
        ("12", 12),
        ("auto", "auto"),
        ("e3", "e3"),
        ("1e", "1e"),
        ("[0.9, 0.95]", [0.9, 0.95]),
        ("{a: 1}", {"a": 1}),
        ("", None),
        ("'1e-3'", "1e-3"),
    ],
)
def test_values(text: str, value: Any) -> None:
    found = read_value(text)
    assert found == value
    assert type(found) is type(value)


def test_every_key_has_its_line() -> None:
    value, places = read_yaml("a: 1\nb:\n  c: 2\n  d:\n    - {e: 3}\n    - f: 4\n", "run.yaml")
    assert value == {"a": 1, "b": {"c": 2, "d": [{"e": 3}, {"f": 4}]}}
    assert places == {
        ("a",): "run.yaml:1",
        ("b",): "run.yaml:2",
        ("b", "c"): "run.yaml:3",
        ("b", "d"): "run.yaml:4",
        ("b", "d", "0", "e"): "run.yaml:5",
        ("b", "d", "1", "f"): "run.yaml:6",
    }


def test_every_key_that_stands_twice_is_told() -> None:
    with pytest.raises(UserError) as caught:
        read_yaml("a: 1\nb: {c: 1, c: 2}\na: 2\n", "run.yaml")
    assert [str(mistake) for mistake in caught.value.mistakes] == [
        "run.yaml:2: b.c stands twice (first at run.yaml:2): keep one",
        "run.yaml:3: a stands twice (first at run.yaml:1): keep one",
    ]


def test_a_merged_key_may_be_set_anew() -> None:
    value, _ = read_yaml("a: &all {x: 1, y: 2}\nb:\n  <<: *all\n  y: 3\n", "run.yaml")
    assert value["b"] == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a: [1\nb: 2\n", "run.yaml:2: "),
        ("a: 1\n  b: 2\n", "run.yaml:2: "),
        ("a: 1\n---\nb: 2\n", "run.yaml:2: "),
        ("a: !!python/object:os.system x\n", "run.yaml:1: "),
        ("a: 2020-13-45\n", "run.yaml: "),
        ("a: " + 5000 * "1", "run.yaml: "),
        ("a: &a [*a]\n", "run.yaml: "),
        ("a: " + 3000 * "[", "run.yaml: "),
        ("\x00\x01", "run.yaml: "),
    ],
)
def test_what_is_no_yaml(text: str, where: str) -> None:
    with pytest.raises(UserError) as caught:
        read_yaml(text, "run.yaml")
    (mistake,) = caught.value.mistakes
    assert str(mistake).startswith(where + "this is not valid YAML: ")


@given(st.text())
@example("!!int x")
@example("!!timestamp x")
@example("!!bool x")
@example("!!int ''")
@example("? {}: 1")
@example("*a")
def test_any_text_is_a_value_or_a_mistake(text: str) -> None:
    try:
        read_yaml(text, "run.yaml")
    except UserError as error:
        assert error.mistakes
