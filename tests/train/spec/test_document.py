from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import UserError
from stoker.train.spec.document import explain, help_text, json_schema, reference_page
from stoker.train.spec.load import all_keys, section_of
from stoker.train.spec.model import RunSpec

ROOT = Path(__file__).parents[3]
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


def test_the_schema_accepts_the_digits_run_file() -> None:
    """By a small reader of the words that our schema uses."""
    schema = json_schema()
    run_file = yaml.safe_load((ROOT / "examples/digits/run.yaml").read_text().replace("3e-3", "0.003"))
    assert not list(_refusals(run_file, schema, schema))
    wrong = run_file | {"seed": "x", "epochs": 3, "batch": {"global_size": 0}, "precision": "fp8"}
    assert set(_refusals(wrong, schema, schema)) == {"seed", "epochs", "global_size", "precision"}
    assert not list(_refusals({"task": {"use": "a:b"}, "duration": "1 step"}, schema, schema))


def _refusals(value: Any, schema: dict[str, Any], root: dict[str, Any], key: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")]
    if "anyOf" in schema:
        if all(list(_refusals(value, one, root, key)) for one in schema["anyOf"]):
            yield key
        return
    kinds = {"string": str, "object": dict, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
    wrong = "type" in schema and not isinstance(value, kinds[schema["type"]])
    wrong |= value not in schema.get("enum", [value])
    wrong |= value != schema.get("const", value)
    if wrong or ("minimum" in schema and value < schema["minimum"]):
        yield key
    if isinstance(value, dict) and "properties" in schema:
        assert set(schema.get("required", [])) <= value.keys()
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from _refusals(inner, schema["properties"][name], root, name)
            elif not schema["additionalProperties"]:
                yield name


def test_the_reference_page_has_every_field() -> None:
    page = reference_page()
    assert all(f"`{key}`" in page for key in PLAIN)
