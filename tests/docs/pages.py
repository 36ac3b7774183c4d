"""Reads and runs the examples of the pages.

A comment above a fenced block says what it is for; a block without one is only shown.

    <!-- file: NAME -->   the block is written to this file in the page's folder
    <!-- run -->          the block is run there: Python as it stands, of a console each line after `$ `

Below a command stands what it prints, errors included. `...` stands for anything, also for several lines.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stoker.cli.main import main

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
PAGES = [ENGLISH, CHINESE, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPACING = re.compile(r"\s+")

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>run|file: (?P<name>\S+)) -->\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block: `mark` is `run`, `file: NAME` or empty."""

    language: str
    text: str
    mark: str
    name: str

    @property
    def commands(self) -> Iterator[tuple[str, str]]:
        """Each command of a console with what is shown below it."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(one["language"], one["text"], one["mark"] or "", one["name"] or "") for one in found]


class Reader:
    """Somebody who does what a page says, in a folder that has the examples."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self.monkeypatch, self.capfd = folder, monkeypatch, capfd
        self.code = 0
        (folder / "examples").symlink_to(ROOT / "examples")
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.setenv("COLUMNS", "100")
        for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID"):
            monkeypatch.delenv(name, raising=False)

    def follow(self, block: Block) -> None:
        """Write, run, or pass over."""
        if block.name:
            (self.folder / block.name).write_text(block.text, encoding="utf-8")
        elif block.mark and block.language == "python":
            exec(compile(block.text, "page", "exec"), {"__name__": "page"})
        elif block.mark:
            for command, shown in block.commands:
                printed = self.run(command)
                assert matches(printed, shown), f"$ {command}\nshows:\n{shown}\nprints:\n{printed}"

    def leave(self) -> None:
        """Forget the page's own modules: the next page's file of the same name is another one."""
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(str(self.folder)):
                del sys.modules[name]

    def run(self, command: str) -> str:
        """What a `stoker` command, or `echo $?`, prints."""
        if command == "echo $?":
            return f"{self.code}\n"
        words = shlex.split(command)
        assert words[0] == "stoker", f"only stoker commands can be run: {command}"
        self.monkeypatch.setattr(sys, "argv", words)
        self.capfd.readouterr()
        try:
            main()
            self.code = 0
        except SystemExit as end:
            self.code = int(end.code or 0)
        out = self.capfd.readouterr()
        return out.out + out.err


def matches(printed: str, shown: str) -> bool:
    """Whether what is shown is what was printed, with `...` for anything; spacing does not count."""
    pieces = [re.escape(SPACING.sub(" ", piece).strip()) for piece in shown.split("...")]
    return re.fullmatch(r"\s*" + r".*?".join(pieces) + r"\s*", SPACING.sub(" ", printed).strip(), re.DOTALL) is not None


def links_of(page: Path) -> list[tuple[str, str]]:
    """Path and anchor of each internal link outside of code."""
    text = re.sub(r"```.*?^```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    return [(path, anchor) for path, _, anchor in (one.partition("#") for one in targets) if not is_outside(path)]


def is_outside(target: str) -> bool:
    """Whether a link leaves the repository."""
    return re.match(r"[a-z]+:", target) is not None


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a path lies in a folder, links resolved."""
    return os.path.commonpath([path.resolve(), folder.resolve()]) == str(folder.resolve())
