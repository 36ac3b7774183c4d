"""The pages say what is so: their examples run, their links lead somewhere, the reference is complete."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from stoker.cli.main import app
from stoker.errors import ExitCode
from stoker.train.spec.document import reference_page
from tests.docs.pages import CHINESE, ENGLISH, PAGES, ROOT, Reader, blocks_of, is_inside, links_of, matches

WITH_EXAMPLES = [page for page in PAGES if any(block.mark for block in blocks_of(page)) and page != CHINESE]
REFERENCE = ROOT / "docs" / "reference"


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Reader]:
    found = Reader(tmp_path, monkeypatch, capfd)
    yield found
    found.leave()


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=_name)
def test_examples_do_what_the_page_shows(page: Path, reader: Reader) -> None:
    for block in blocks_of(page):
        reader.follow(block)


def test_the_readme_and_the_tutorial_have_examples() -> None:
    assert {"README.md", "docs/tutorial/first-run.md", "docs/how-to/own-task.md"} <= {
        _name(one) for one in WITH_EXAMPLES
    }


def test_what_is_shown_is_compared() -> None:
    assert matches("a\nb  c\nd\n", "a\n...\nd\n")
    assert not matches("a\nb\n", "a\n")
    assert not matches("a\nb\nd\n", "a\n...\nc\n")


def test_both_readmes_have_the_same_blocks() -> None:
    """So what holds for the blocks of the English one holds for those of the Chinese one."""
    assert blocks_of(CHINESE) == blocks_of(ENGLISH)


def test_the_readmes_link_to_each_other_and_to_the_same_pages() -> None:
    english, chinese = set(links_of(ENGLISH)), set(links_of(CHINESE))
    assert english - {(CHINESE.name, "")} == chinese - {(ENGLISH.name, "")}
    assert (CHINESE.name, "") in english
    assert (ENGLISH.name, "") in chinese


def test_links_lead_somewhere() -> None:
    """Also those into the site from outside of it; anchors are mkdocs's to check."""
    links = [(page, target) for page in PAGES for target, _ in links_of(page) if target]
    assert len(links) > 50
    for page, target in links:
        path = (page.parent / target).resolve()
        assert path.exists(), f"{_name(page)}: {target} does not exist"
        assert is_inside(path, ROOT), f"{_name(page)}: {target} leaves the repository"


def test_pages_name_nothing_of_the_place_where_they_were_written() -> None:
    words = (str(ROOT), "/work/")
    assert [_name(page) for page in PAGES if any(word in page.read_text(encoding="utf-8") for word in words)] == []


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="mkdocs is in the extra `dev`")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "reference" / "run-file.html").is_file()


def test_the_navigation_names_every_page() -> None:
    """Pages in a folder with an index of its own are reached from there."""
    named = set(_leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]))
    docs = ROOT / "docs"
    pages = {page for page in docs.rglob("*.md") if page.name == "index.md" or not (page.parent / "index.md").exists()}
    assert {str(page.relative_to(docs)) for page in pages} == named


def _leaves(node: object) -> list[str]:
    if isinstance(node, str):
        return [node]
    children = node.values() if isinstance(node, dict) else node
    return [leaf for child in children for leaf in _leaves(child)]


def test_the_page_of_the_run_file_is_up_to_date() -> None:
    page = (REFERENCE / "run-file.md").read_text(encoding="utf-8")
    remedy = "make it anew: stoker schema run --format markdown > docs/reference/run-file.md"
    assert page.rstrip() == reference_page().rstrip(), remedy


def test_the_readmes_name_every_command_and_no_other() -> None:
    offered = {" ".join(path) for path in _commands(get_command(app))}
    for page in (ENGLISH, CHINESE):
        rows = re.findall(r"^\| `stoker ([^`]+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
        named = {" ".join(word for word in row.split() if not word.isupper() and "..." not in word) for row in rows}
        assert {name.removesuffix(" run") for name in named} == offered


def _commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every command that is not hidden, and the groups that do something by themselves."""
    inner = {name: one for name, one in getattr(command, "commands", {}).items() if not one.hidden}
    itself = [path] if not inner or (path and command.invoke_without_command) else []
    return itself + [leaf for name, one in inner.items() for leaf in _commands(one, (*path, name))]


def test_the_tests_that_pages_name_are_there() -> None:
    """Each `pytest ...` of a page: its files, and for each word of `-k` a test."""
    lines = {
        line for page in PAGES for line in re.findall(r"pytest ((?:tests/[^`]*))`", page.read_text(encoding="utf-8"))
    }
    assert len(lines) > 8
    for line in lines:
        words = shlex.split(line)
        paths = [ROOT / word for word in words if word.startswith("tests/")]
        assert [path for path in paths if not path.exists()] == []
        names = re.findall(r"def (test_\w+)", "".join(path.read_text() for path in paths if path.is_file()))
        chosen = words[words.index("-k") + 1].split(" or ") if "-k" in words else []
        assert [part for part in chosen if not any(part in name for name in names)] == [], line


def test_every_exit_code_is_described() -> None:
    text = (REFERENCE / "exit-codes.md").read_text(encoding="utf-8")
    assert [code for code in ExitCode if f"| {code.value} | " not in text] == []


def test_every_file_and_key_of_a_run_folder_is_described(reader: Reader) -> None:
    """A real run, one that failed, and their keys."""
    train = "stoker train examples/digits/run.yaml --processes 1"
    reader.run(f"{train} duration='2 epochs' gradient.clip_norm=1 output=good")
    assert reader.code == 0
    reader.run(f"{train} optimizer.lr=1e30 output=bad")
    assert reader.code == 1
    text = (REFERENCE / "run-folder.md").read_text(encoding="utf-8")
    names: set[str] = set()
    for folder in (reader.folder / "good", reader.folder / "bad"):
        names |= {f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir()}
        for file in [*folder.glob("*.json"), *folder.glob("*.jsonl")]:
            for line in [file.read_text()] if file.suffix == ".json" else file.read_text().splitlines():
                names |= set(json.loads(line))
    checkpoint = max((reader.folder / "good" / "checkpoints").iterdir())
    names |= {f"{path.name}/" if path.is_dir() else path.name for path in checkpoint.iterdir()}
    for file in checkpoint.glob("*.json"):
        names |= set(json.loads(file.read_text()))
    assert len(names) > 50, "the runs left less than expected"
    assert [name for name in sorted(names) if f"`{name}`" not in text] == []
