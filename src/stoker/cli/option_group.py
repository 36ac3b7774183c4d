"""Options that several commands share, written once: the fields of a dataclass become the command's own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, Concatenate, ParamSpec, TypeVar, get_type_hints

P = ParamSpec("P")
G = TypeVar("G")


def with_group(group: type[G]) -> Callable[[Callable[Concatenate[G, P], None]], Callable[..., None]]:
    """Let a command take the fields of `group` as arguments and options, and get them as one value.

    Args:
        group: A dataclass whose fields are annotated for typer.
    """

    def decorate(command: Callable[Concatenate[G, P], None]) -> Callable[..., None]:
        first, *own = inspect.signature(command, eval_str=True).parameters.values()
        del first  # the group itself
        shared = _parameters(group)

        @functools.wraps(command)
        def call(**given: Any) -> None:
            values = {parameter.name: given.pop(parameter.name) for parameter in shared}
            command(group(**values), **given)  # pyright: ignore[reportCallIssue] # typer fills what P takes

        signature = inspect.Signature([*shared, *own])
        call.__signature__ = signature  # pyright: ignore[reportAttributeAccessIssue] # inspect reads it
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in signature.parameters.values()}
        return call

    return decorate


def _parameters(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
