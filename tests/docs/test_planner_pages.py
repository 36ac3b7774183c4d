"""The examples of the pages are run and give what the pages show."""

from __future__ import annotations

import re
import shlex
from datetime import date
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoker.cli.main import app
from stoker.plan.versions import model

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("how-to/choose-versions.md", "how-to/plan-power.md")


def examples():
    """Each command of the pages with the output shown below it."""
    text = "\n".join((DOCS / page).read_text(encoding="utf-8") for page in PAGES)
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.mark.parametrize(("command", "output"), list(examples()), ids=lambda text: text[:60])
def test_an_example_gives_what_the_page_shows(command, output, monkeypatch):
    class Day(date):
        @classmethod
        def today(cls):
            return cls(2026, 12, 1)

    monkeypatch.setattr(model, "date", Day)
    words = shlex.split(command)
    assert words[0] == "stoker"
    result = CliRunner().invoke(app, words[1:])
    assert result.output == output


def test_there_are_examples():
    assert len(list(examples())) >= 9


def test_the_python_of_the_reference_runs():
    text = (DOCS / "reference/facts.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, "facts.md", "exec"), {})


def test_the_reference_names_every_table():
    from stoker.facts.catalog import TABLES

    text = (DOCS / "reference/facts.md").read_text(encoding="utf-8")
    assert [name for name in TABLES if f"`{name}`" not in text] == []
