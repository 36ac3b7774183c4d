"""Help, explanations, JSON schema and reference page: all made from the docstrings of the fields."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from stoker.errors import UserError
from stoker.train.spec.load import all_keys, nearest_key, section_of
from stoker.train.spec.model import RunSpec
from stoker.train.spec.quantity import Quantity


def explain(key: str) -> str:
    """What a field or section is, takes, and is by default; `all` explains everything.

    Raises:
        UserError: There is no such key; names the nearest.
    """
    if key == "all":
        return "\n\n".join(explain(one) for one in all_keys() if one.count(".") or _section(one) is None)
    if key not in all_keys():
        near = nearest_key(key)
        raise UserError(f"there is no key {key!r}: " + (f"did you mean {near!r}?" if near else "try --explain all"))
    section = _section(key)
    if section is not None:
        inside = "\n".join(f"  {key}.{name}: {first_sentence(info)}" for name, info in section.model_fields.items())
        return f"{key}: {_words(section.__doc__)}\n{inside}"
    info = _field(key)
    return f"{key}: {_words(info.description)}\n  takes: {accepted(info)}\n  default: {default(info)}"


def help_text() -> str:
    """Every field with the first sentence about it, for `--help`."""
    lines = ["Fields of a run file (key.path=value on the command line wins; --explain KEY tells more):"]
    plain = [key for key in all_keys() if _section(key) is None]
    lines += [f"  {key}: {first_sentence(_field(key))} [{default(_field(key))}]" for key in plain]
    return "\n".join(lines)


def json_schema() -> dict[str, Any]:
    """JSON schema of a run file (draft 2020-12), for editors."""
    schema = RunSpec.model_json_schema(mode="validation")
    task = schema["properties"]["task"]
    task["anyOf"] = [{"type": "string"}, {"$ref": task.pop("$ref")}]  # the short form is read before the fields are
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def reference_page() -> str:
    """The reference page in Markdown."""
    parts = [
        "# Run file",
        "Made from the fields' own descriptions by `stoker schema run --format markdown`. "
        "One precedence rule: the command line wins over the file, the file over the defaults.",
    ]
    for name, info in RunSpec.model_fields.items():
        section = section_of(RunSpec, name)
        if section is None:
            parts.append(f"## `{name}`\n\n{_entry(info)}")
            continue
        rows = "\n\n".join(f"### `{name}.{key}`\n\n{_entry(field)}" for key, field in section.model_fields.items())
        parts.append(f"## `{name}`\n\n{_words(section.__doc__)}\n\n{rows}")
    return "\n\n".join(parts) + "\n"


def accepted(info: FieldInfo) -> str:
    """What a field takes, in words."""
    ways = list(dict.fromkeys(_kind(branch) for branch in _branches(info.annotation)))
    bounds = [_bound(constraint) for constraint in info.metadata if _bound(constraint)]
    text = ", ".join(ways[:-1]) + (" or " if len(ways) > 1 else "") + ways[-1]
    return text + (f" {' and '.join(bounds)}" if bounds else "")


def default(info: FieldInfo) -> str:
    """A field's default as one would write it."""
    if info.is_required() or info.default is PydanticUndefined:
        return "required"
    value = info.default
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if not isinstance(value, dict) else "{}"


def first_sentence(info: FieldInfo) -> str:
    """The first sentence of a field's docstring."""
    text = _words(info.description)
    end = text.find(". ")
    return text if end < 0 else text[: end + 1]


def _entry(info: FieldInfo) -> str:
    without = "Required." if info.is_required() else f"Default: `{default(info)}`."
    return f"{_words(info.description)}\n\nTakes {accepted(info)}. {without}"


def _branches(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [inner for branch in get_args(annotation) for inner in _branches(branch)]
    return [annotation]


def _kind(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return ", ".join(str(word) for word in get_args(annotation))
    if annotation is Quantity:
        return "an amount with its unit"
    if hasattr(annotation, "__metadata__"):
        bounds = [word for constraint in annotation.__metadata__ for word in _field_bounds(constraint)]
        return f"{_kind(get_args(annotation)[0])}{' ' if bounds else ''}{' and '.join(bounds)}"
    names = {
        int: "a whole number",
        float: "a number",
        bool: "true or false",
        str: "text",
        type(None): "nothing",
    }
    return names.get(annotation, "a mapping")


def _field_bounds(constraint: Any) -> list[str]:
    inner = constraint.metadata if isinstance(constraint, FieldInfo) else [constraint]
    return [word for one in inner if (word := _bound(one))]


def _bound(constraint: Any) -> str:
    for name, words in (("ge", "of at least"), ("gt", "above"), ("le", "of at most"), ("lt", "below")):
        value = getattr(constraint, name, None)
        if value is not None:
            return f"{words} {value}"
    return ""


def _section(key: str) -> type[BaseModel] | None:
    return section_of(RunSpec, key) if "." not in key else None


def _field(key: str) -> FieldInfo:
    model: type[BaseModel] = RunSpec
    *sections, last = key.split(".")
    for name in sections:
        inner = section_of(model, name)
        assert inner is not None
        model = inner
    return model.model_fields[last]


def _words(text: str | None) -> str:
    return " ".join((text or "").split())
