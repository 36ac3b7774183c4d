from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from stoker.cli.option_group import with_group


@dataclass(frozen=True)
class Shared:
    name: Annotated[str, typer.Argument(help="Who.")]
    count: Annotated[int, typer.Option(min=1, help="How often.")] = 2


def made() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    @with_group(Shared)
    def greet(shared: Shared, loud: Annotated[bool, typer.Option("--loud", help="Shout.")] = False) -> None:
        """Greet."""
        word = f"hello {shared.name}"
        typer.echo(" ".join([word.upper() if loud else word] * shared.count))

    return app


def test_a_command_gets_its_group_and_its_own_options() -> None:
    run = CliRunner().invoke
    assert run(made(), ["you"]).output == "hello you hello you\n"
    assert run(made(), ["you", "--count", "1", "--loud"]).output == "HELLO YOU\n"
    assert run(made(), ["you", "--count", "0"]).exit_code == 2
    assert run(made(), []).exit_code == 2


def test_help_has_both() -> None:
    text = CliRunner().invoke(made(), ["--help"]).output
    assert "How often." in text
    assert "Shout." in text
    assert "Greet." in text
