"""From `task.use` and `task.options` to a Task."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from difflib import get_close_matches
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from stoker.errors import UserError
from stoker.train.spec.model import TaskSection, unknown_word
from stoker.train.task import Task

GROUP = "stoker.tasks"
"""Entry-point group under which installed packages offer tasks by a short name."""


def find_task(section: TaskSection, folder: Path) -> Task:
    """Build the task.

    Args:
        section: Its name and options.
        folder: Where relative task files start.

    Raises:
        UserError: There is no such task, or it does not take these options.
    """
    make = _find(section.use, folder)
    if not callable(make):
        raise UserError(f"task.use: {section.use} is a {type(make).__name__}, not a Task class nor a function")
    _check_options(section, make)
    task = make(**section.options)
    if not isinstance(task, Task):
        raise UserError(f"task.use: {section.use} gives a {type(task).__name__}, not a stoker Task")
    return task


def _find(use: str, folder: Path) -> Callable[..., Any]:
    if ":" not in use:
        offered = {point.name: point for point in entry_points(group=GROUP)}
        if use not in offered:
            near = unknown_word(use, tuple(offered), "built-in task")
            raise UserError(f"task.use: {near}; for a task of your own write path/to/file.py:Name or module:Name")
        return offered[use].load()
    source, _, name = use.rpartition(":")
    if not source or source.startswith("."):
        raise UserError(f"task.use: {use!r} names no module: write module:Name or path/to/file.py:Name")
    module = _load_file(source, folder) if source.endswith(".py") else _import(source, folder)
    if not hasattr(module, name):
        public = [word for word in vars(module) if not word.startswith("_")]
        near = get_close_matches(name, public, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UserError(f"task.use: {source} has no {name!r}{hint}")
    return cast(Callable[..., Any], getattr(module, name))


def _load_file(source: str, folder: Path) -> ModuleType:
    path = (folder / source).resolve()
    if not path.is_file():
        raise UserError(f"task.use: the file does not exist: {path}")
    name = f"stoker_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look a class's module up by name
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))  # a task file may import its neighbours
    spec.loader.exec_module(module)
    return module


def _import(source: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise  # the module is there, something that it imports is not
        raise UserError(f"task.use: there is no module {source!r}; a file is written as path/to/file.py:Name") from None


def _check_options(section: TaskSection, make: Callable[..., Any]) -> None:
    """Compare the options with what the task takes, and say all that is wrong."""
    parameters = inspect.signature(make).parameters
    task = section.use.rsplit("/", 1)[-1]  # without the folders of its file
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return
    mistakes = [
        unknown_word(option, tuple(parameters), f"option of {task}")
        if parameters
        else f"{task} takes no options, but {option!r} is given"
        for option in section.options
        if option not in parameters
    ]
    mistakes += [
        f"{task} needs the option {name!r}"
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and name not in section.options
    ]
    if mistakes:
        raise UserError(*(f"task.options: {mistake}" for mistake in mistakes))
