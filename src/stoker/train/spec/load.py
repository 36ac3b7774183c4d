"""From a YAML file and `key.path=value` words to a RunSpec, or to all mistakes at once.

One precedence rule: the command line wins over the file, the file over the defaults.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from stoker.errors import Mistake, UserError
from stoker.train.spec.model import RunSpec
from stoker.train.spec.yaml_source import read_value, read_yaml

KeyPath = tuple[str, ...]

COMMON_NAMES = {
    "batch_size": "batch.global_size",
    "dataset": "task.options",
    "device": "parallel.strategy",
    "epochs": "duration: 20 epochs",
    "grad_clip": "gradient.clip_norm",
    "learning_rate": "optimizer.lr",
    "max_epochs": "duration: 20 epochs",
    "max_steps": "duration: 500 steps",
    "model": "task.options",
    "num_workers": "data.workers",
    "scheduler": "schedule",
    "steps": "duration: 500 steps",
}
"""What other programs call a field, and where it is here."""


@dataclass(frozen=True)
class LoadedSpec:
    """A RunSpec and where it came from.

    Attributes:
        spec: The checked spec.
        folder: Folder that relative task files start at.
    """

    spec: RunSpec
    folder: Path


def load_spec(path: Path, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Read a run file and apply overrides.

    Args:
        path: YAML file.
        overrides: Words `key.path=value`; the value is read as YAML.

    Raises:
        UserError: With every mistake, its file and line, and the nearest valid key.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"the run file does not exist: {path}") from None
    except IsADirectoryError:
        raise UserError(f"the run file is a folder: {path}; name the YAML file in it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"the run file cannot be read: {path}: {error}") from None
    value, places = read_yaml(text, str(path))
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise UserError(Mistake("a run file is a mapping of sections, such as 'task: ...'", str(path)))
    value.setdefault("output", f"runs/{path.stem}")
    spec = parse_spec(value, overrides=overrides, places=places, name=str(path))
    folder = path.resolve().parent
    return LoadedSpec(_with_full_task_path(spec, folder), folder)


def _with_full_task_path(spec: RunSpec, folder: Path) -> RunSpec:
    """A task file by its full path, so that the spec in the run folder can be run again as it is."""
    source, colon, name = spec.task.use.rpartition(":")
    if not colon or not source.endswith(".py"):
        return spec
    task = spec.task.model_copy(update={"use": f"{(folder / source).resolve()}:{name}"})
    return spec.model_copy(update={"task": task})


def parse_spec(
    value: Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    places: Mapping[KeyPath, str] | None = None,
    name: str = "spec",
) -> RunSpec:
    """Check a mapping of plain values.

    Args:
        value: Sections and fields.
        overrides: Words `key.path=value`.
        places: Where each key path was written.
        name: What the source is called where no place is known.

    Raises:
        UserError: With every mistake.

    >>> parse_spec({"task": "digits.py:Digits", "duration": "2 epochs"}, overrides=["seed=3"]).seed
    3
    """
    places = dict(places or {})
    tree, mistakes = _apply(value, overrides, places)
    try:
        spec = RunSpec.model_validate(tree)
    except ValidationError as error:
        mistakes += _mistakes(error.errors(include_url=False), places, name)
    else:
        if not mistakes:
            return spec
    raise UserError(*mistakes)


def _apply(
    value: Mapping[str, Any], overrides: Iterable[str], places: dict[KeyPath, str]
) -> tuple[dict[str, Any], list[Mistake]]:
    """`value` with the overrides set in a copy; notes their places."""
    tree = _copy(value)
    mistakes: list[Mistake] = []
    for word in overrides:
        key, equals, text = word.partition("=")
        if not equals or not key:
            mistakes.append(Mistake(f"{word!r} is not an override: write key.path=value", "command line"))
            continue
        try:
            new = read_value(text)
        except yaml.YAMLError:
            mistakes.append(Mistake(f"{word!r}: the value is not valid YAML; quote it", "command line"))
            continue
        path = tuple(key.split("."))
        node = tree
        for part in path[:-1]:
            inner = node.get(part)
            if part == "task" and isinstance(inner, str):
                inner = {"use": inner}
            node[part] = inner if isinstance(inner, dict) else {}
            node = node[part]
        node[path[-1]] = new
        for known in [known for known in places if known[: len(path)] == path]:
            del places[known]
        places[path] = f"command line ({word})"
    return tree, mistakes


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _copy(inner) for key, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def _mistakes(errors: Sequence[ErrorDetails], places: Mapping[KeyPath, str], name: str) -> list[Mistake]:
    by_field: dict[KeyPath, list[ErrorDetails]] = {}
    for error in errors:
        by_field.setdefault(_field_path(error["loc"]), []).append(error)
    return [Mistake(_sentence(path, group), _place(path, places, name)) for path, group in by_field.items()]


def _place(path: KeyPath, places: Mapping[KeyPath, str], name: str) -> str:
    for length in range(len(path), 0, -1):
        if path[:length] in places:
            return places[path[:length]]
    return name


def _field_path(loc: tuple[int | str, ...]) -> KeyPath:
    """The part of a pydantic location that names fields; the rest names branches of a union."""
    path: list[str] = []
    model: type[BaseModel] | None = RunSpec
    for part in loc:
        if model is None:
            break
        path.append(str(part))
        model = section_of(model, str(part))
    return tuple(path)


def section_of(model: type[BaseModel], field: str) -> type[BaseModel] | None:
    """The section class of a field; None if it holds a plain value."""
    info = model.model_fields.get(field)
    annotation = None if info is None else info.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _sentence(path: KeyPath, errors: Sequence[ErrorDetails]) -> str:
    key = ".".join(path)
    first = errors[0]
    kind, given = first["type"], first["input"]
    for error in errors:
        if error["type"] == "value_error":  # our own validators say it best
            said = error["msg"].removeprefix("Value error, ")
            return f"{key}: {said}" if path else said
    if kind == "extra_forbidden":
        return f"unknown key {key!r}: {_nearest_key(path)}"
    if kind == "missing":
        return f"{key} is missing: {_what(path)}"
    if kind == "model_type":
        return f"{key} is a section: write its fields below it, indented"
    return f"{key}: {given!r} is not understood: write {_accepted(path, errors)}"


def _accepted(path: KeyPath, errors: Sequence[ErrorDetails]) -> str:
    """What a field takes, in words, from the branches that refused the value."""
    ways: list[str] = []
    for error in errors:
        context = error.get("ctx", {})
        if error["type"] == "literal_error":
            ways.append(str(context["expected"]))
        elif error["type"].startswith(("int_", "bool_", "float_", "string_", "dict_")):
            noun = {"int": "a whole number", "bool": "true or false", "float": "a number", "string": "text",
                    "dict": "a mapping"}  # fmt: skip
            ways.append(noun[error["type"].split("_")[0]])
        else:
            ways.append("a number " + error["msg"].removeprefix("Input should be ").lower())
    words = " or ".join(dict.fromkeys(ways))
    given = errors[0]["input"]
    if isinstance(given, str) and (near := get_close_matches(given.lower(), _literals(path), n=1)):
        words += f" (did you mean {near[0]!r}?)"
    return words


def _literals(path: KeyPath) -> list[str]:
    model: type[BaseModel] | None = RunSpec
    for part in path[:-1]:
        model = section_of(model, part) if model else None
    info = model.model_fields.get(path[-1]) if model else None
    return [word for word in _flatten(info.annotation if info else None) if isinstance(word, str)]


def _flatten(annotation: Any) -> list[Any]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [word for branch in get_args(annotation) for word in _flatten(branch)]
    return list(get_args(annotation))


def _what(path: KeyPath) -> str:
    """The first sentence of a field's docstring."""
    model: type[BaseModel] | None = RunSpec
    for part in path[:-1]:
        model = section_of(model, part) if model else None
    info = model.model_fields.get(path[-1]) if model else None
    return " ".join(((info.description if info else None) or "").split())


def all_keys(model: type[BaseModel] = RunSpec, prefix: KeyPath = ()) -> list[str]:
    """Every key path of the format, sections included, in the order of the file."""
    keys: list[str] = []
    for field in model.model_fields:
        keys.append(".".join((*prefix, field)))
        section = section_of(model, field)
        if section is not None:
            keys += all_keys(section, (*prefix, field))
    return keys


def nearest_key(key: str) -> str | None:
    """The valid key path that `key` most likely means: by its full path first, then by its last word."""
    last = key.rsplit(".", 1)[-1]
    if last in COMMON_NAMES:
        return COMMON_NAMES[last]
    keys = all_keys()
    same_word = [known for known in keys if known.rsplit(".", 1)[-1] == last]
    if same_word:
        return same_word[0]
    near = get_close_matches(key, keys, n=1)
    if near:
        return near[0]
    last_words = {known.rsplit(".", 1)[-1]: known for known in keys}
    near = get_close_matches(last, list(last_words), n=1)
    return last_words[near[0]] if near else None


def _nearest_key(path: KeyPath) -> str:
    near = nearest_key(".".join(path))
    return f"did you mean {near!r}?" if near else "see `stoker train --explain all` for what there is"
