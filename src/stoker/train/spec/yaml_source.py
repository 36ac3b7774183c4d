"""YAML with the place of every key, so that a mistake can be pointed at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import yaml

from stoker.errors import Mistake, UserError

Path = tuple[str, ...]


NOT_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, RecursionError)
"""What PyYAML raises: the plain ones for a date or number that there is not, and for a value that holds itself."""


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, but `1e-3` and `1.5e3` are numbers, as everybody means them."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9][0-9_]*\.?[0-9_]*|\.[0-9][0-9_]*)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def read_yaml(text: str, name: str) -> tuple[Any, dict[Path, str]]:
    """Parse one document.

    Args:
        text: The document.
        name: What it is called in messages, such as its file name.

    Returns:
        Its value, and for each key path the place `name:line`.

    Raises:
        UserError: It is not YAML, or a key stands twice.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = list(_key_lines(node, ()))  # before the value is built, which mixes merged keys (<<) with own ones
        value = None if node is None else loader.construct_document(node)
    except NOT_YAML as error:
        raise UserError(_syntax_mistake(error, name)) from None
    places: dict[Path, str] = {}
    twice: list[Mistake] = []
    for path, line in lines:
        where = f"{name}:{line}"
        if path in places:
            twice.append(Mistake(f"{'.'.join(path)} stands twice (first at {places[path]}): keep one", where))
        places[path] = where
    if twice:
        raise UserError(*twice)
    return value, places


def read_value(text: str) -> Any:
    """One value as written on the command line, such as `3e-4`, `[0.9, 0.95]` or `auto`.

    Raises:
        ValueError: It is not YAML.
    """
    try:
        value, _ = read_yaml(text, "value")
    except UserError as error:
        raise ValueError(str(error)) from None
    return value


def _key_lines(node: yaml.Node | None, path: Path) -> Iterator[tuple[Path, int]]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*path, str(key.value))
            yield inner, key.start_mark.line + 1
            yield from _key_lines(value, inner)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _key_lines(value, (*path, str(number)))


def _syntax_mistake(error: Exception, name: str) -> Mistake:
    if isinstance(error, RecursionError):
        return Mistake("this is not valid YAML: it is nested without end", name)
    mark = getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    return Mistake(f"this is not valid YAML: {problem}", f"{name}:{mark.line + 1}" if mark else name)
