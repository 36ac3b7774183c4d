"""How answers and errors reach the person, and in which language."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Literal

import typer

from stoker.errors import UserError

Language = Literal["en", "zh"]


def language_of_environment() -> Language:
    """As gettext decides: the first of LC_ALL, LC_MESSAGES and LANG that is set."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "en"


def shows_unicode() -> bool:
    """Whether the output can hold more than ASCII."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def block() -> str:
    """What bars are made of."""
    return "█" if shows_unicode() else "#"


def print_json(value: Any) -> None:
    """One JSON document, in letters that the output can hold."""
    typer.echo(json.dumps(value, ensure_ascii=not shows_unicode(), indent=1))


def print_text(text: str, *, err: bool = False) -> None:
    """A text that may quote what the terminal cannot show."""
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(text.encode(encoding, "replace").decode(encoding), err=err)


def show_mistakes(error: UserError) -> None:
    """Each mistake as a sentence."""
    for mistake in error.mistakes:
        typer.secho(f"error: {mistake}", fg="red", err=True)
