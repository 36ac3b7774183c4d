"""Dataclasses as plain JSON values and back, checked field by field."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

Row = TypeVar("Row")


def to_plain(value: Any) -> Any:
    """A dataclass as dictionaries, lists, strings, numbers, booleans and None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in cast("list[Any]", value)]
    return value


def from_plain(kind: type[Row], value: Any) -> Row:
    """The dataclass again. Keys that it does not know are left out, missing ones keep their default.

    Raises:
        ValueError: A value is of the wrong type; the message has its place.
    """
    return cast(Row, _read(kind, value, kind.__name__))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, value: Any, place: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return _read(next(one for one in inner if one is not type(None)), value, place)
    if origin is tuple:
        return tuple(_read(inner[0], item, f"{place}[{n}]") for n, item in enumerate(_checked(value, list, place)))
    if origin is dict or origin is Mapping:
        return {str(key): _read(inner[1], item, f"{place}.{key}") for key, item in _checked(value, dict, place).items()}
    if is_dataclass(kind):
        content = _checked(value, dict, place)
        hints = _hints(cast(type, kind))
        values = {key: _read(hints[key], item, f"{place}.{key}") for key, item in content.items() if key in hints}
        return cast(Any, kind)(**values)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is int and isinstance(value, bool):
        raise ValueError(f"{place}: a number is expected, not {value!r}")
    return _checked(value, kind, place)


def _checked(value: Any, kind: Any, place: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"{place}: {kind.__name__} is expected, not {type(value).__name__}")
    return value
