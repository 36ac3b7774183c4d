from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.train.spec.document import explain, help_text, json_schema, reference_page
from stoker.train.spec.load import all_keys, section_of
from stoker.train.spec.model import RunSpec

PLAIN = [key for key in all_keys() if "." in key or section_of(RunSpec, key) is None]


@pytest.mark.parametrize("key", all_keys())
def test_every_key_is_explained(key: str) -> None:
    text = explain(key)
    first, rest = text.split("\n", 1)
    assert first.startswith(f"{key}: ")
    assert len(first) > len(key) + 12, "there is no description"
    if key in PLAIN:
        assert "takes: " in rest
        assert "default: " in rest


def test_bounds_and_choices_are_said() -> None:
    assert "takes: auto or a whole number of at least 1" in explain("batch.micro_size")
    assert "takes: a number above 0 or nothing" in explain("gradient.clip_norm")
    assert "auto, fp64, fp32, tf32, bf16, fp16" in explain("precision")


def test_everything_at_once_and_help() -> None:
    everything, short = explain("all"), help_text()
    for key in PLAIN:
        assert f"{key}: " in everything
        assert f"  {key}: " in short


def test_an_unknown_key() -> None:
    with pytest.raises(UserError, match=r"did you mean 'optimizer\.lr'"):
        explain("optimizer.learning_rate")
    with pytest.raises(UserError, match="all"):
        explain("xyzzy")


def test_the_schema_describes_every_field() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == {"task", "duration"}
    sections = schema["$defs"]
    for key in PLAIN:
        *section, field = key.split(".")
        owner = sections[_class_of(section[0])] if section else schema
        assert owner["properties"][field]["description"], key
    assert schema["properties"]["duration"]["type"] == "string"


def _class_of(section: str) -> str:
    kind = section_of(RunSpec, section)
    assert kind is not None
    return kind.__name__


def test_the_reference_page_has_every_field() -> None:
    page = reference_page()
    assert all(f"`{key}`" in page for key in PLAIN)
