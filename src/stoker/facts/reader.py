"""Reads a table of this package into frozen dataclasses whose fields are its columns.

An empty cell is unknown: None where the field may be None, an empty string or an empty tuple elsewhere, and
never zero. Lists are split by `|`, pairs inside a list by `=`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from stoker.facts.version import Version

Row = TypeVar("Row")
Versions = tuple[Version, ...]
Words = tuple[str, ...]
VersionByKey = Mapping[str, Version]


@cache
def raw_rows(table: str) -> tuple[Mapping[str, str], ...]:
    """The rows of `tables/<table>` as they are written, column name to cell."""
    text = files("stoker.facts").joinpath("tables", table).read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines(keepends=True), strict=True))


@cache
def load(table: str, row_type: type[Row]) -> tuple[Row, ...]:
    """The rows of `tables/<table>` as `row_type`, a dataclass with one field per column in the same order.

    Raises:
        ValueError: The columns differ from the fields, or a cell does not have the field's type.
    """
    hints = get_type_hints(row_type)
    names = [field.name for field in fields(row_type)]  # type: ignore[arg-type]  # a dataclass by contract
    rows: list[Row] = []
    for number, cells in enumerate(raw_rows(table), start=2):
        if list(cells) != names:
            raise ValueError(f"{table}:{number}: the columns are not those of {row_type.__name__}")
        values: dict[str, Any] = {}
        for name in names:
            try:
                values[name] = _convert(cells[name], hints[name])
            except (ValueError, KeyError) as error:
                raise ValueError(f"{table}:{number}: {name}: {cells[name]!r}: {error}") from error
        rows.append(row_type(**values))
    return tuple(rows)


def split(cell: str) -> Words:
    """The items of a list cell; none for an empty one."""
    return tuple(item.strip() for item in cell.split("|")) if cell else ()


def _yes_no(cell: str) -> bool:
    return {"yes": True, "no": False}[cell]


def _pairs(cell: str) -> VersionByKey:
    pairs = (item.split("=", 1) for item in split(cell))
    return {key: Version(value) for key, value in pairs}


_READ: dict[object, Callable[[str], object]] = {
    str: str,
    int: int,
    float: float,
    bool: _yes_no,
    Version: Version,
    Words: split,
    Versions: lambda cell: tuple(Version(item) for item in split(cell)),
    tuple[int, ...]: lambda cell: tuple(int(item) for item in split(cell)),
    VersionByKey: _pairs,
    int | None: lambda cell: int(cell) if cell else None,
    float | None: lambda cell: float(cell) if cell else None,
    bool | None: lambda cell: _yes_no(cell) if cell else None,
    Version | None: lambda cell: Version(cell) if cell else None,
}


def _convert(cell: str, hint: object) -> object:
    if get_origin(hint) is Literal:
        if cell not in get_args(hint):
            raise ValueError(f"not one of {', '.join(map(repr, get_args(hint)))}")
        return cell
    return _READ[hint](cell)
