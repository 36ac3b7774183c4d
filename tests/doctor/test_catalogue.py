"""The knowledge is whole, and what is made of it is up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from stoker.doctor import build
from stoker.doctor.catalogue import load_catalogue, load_texts
from stoker.doctor.literals import required_literals
from stoker.doctor.rules import RULES

ROOT = Path(__file__).resolve().parents[2]
CAUSES = list(build.read_causes())


def test_the_index_and_the_texts_are_up_to_date() -> None:
    for name, content in build.outputs().items():
        assert (build.FOLDER / name).read_text(encoding="utf-8") == content, (
            f"run python -m stoker.doctor.build: {name}"
        )


def test_the_pages_are_up_to_date() -> None:
    pages: dict[str, str] = runpy.run_path(str(ROOT / "scripts" / "build_cause_pages.py"))["pages"]()
    folder = ROOT / "docs" / "reference" / "causes"
    assert {path.name for path in folder.glob("*.md")} == set(pages)
    for name, content in pages.items():
        assert (folder / name).read_text(encoding="utf-8") == content, f"run scripts/build_cause_pages.py: {name}"


def test_there_are_enough_causes() -> None:
    assert len(CAUSES) >= 150


@pytest.mark.parametrize("cause", CAUSES, ids=[cause["id"] for cause in CAUSES])
def test_a_cause_is_whole(cause: dict[str, Any]) -> None:
    known = load_catalogue().signatures
    assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", cause["id"])
    assert cause["source"]
    assert cause.get("state", "fail") in {"fail", "warn", "info"}
    assert cause.get("role", "root") in {"root", "cascade", "generic"}
    for name in cause.get("explains", ()):
        assert name in known, f"{cause['id']} explains an unknown cause: {name}"
    english, chinese = load_texts("en")[cause["id"]], load_texts("zh")[cause["id"]]
    for text in (english, chinese):
        assert text.title
        assert text.meaning
        assert text.fix
        assert text.confirm
    assert len(english.fix) == len(chinese.fix)
    assert re.search(r"[\u4e00-\u9fff]", chinese.title + chinese.meaning)
    assert not re.search(r"[\u4e00-\u9fff]", english.title + english.meaning)


def test_every_cause_can_be_reached() -> None:
    doctor = ROOT / "src/stoker/doctor"
    code = [
        *doctor.glob("rules/*.py"),
        *doctor.glob("runs/*.py"),
        *doctor.glob("hang/*.py"),
        *doctor.glob("bundle/*.py"),
    ]
    rules = "\n".join(path.read_text(encoding="utf-8") for path in code)
    catalogue = load_catalogue()
    for cause, signature in catalogue.signatures.items():
        assert signature.clauses or f'"{cause}"' in rules or cause in catalogue.xids.values(), cause


def test_every_pattern_matches_only_lines_that_hold_one_of_its_literals() -> None:
    catalogue = load_catalogue()
    lines = [line for cause in CAUSES for one in cause["positive"] for line in _log(one).split("\n")]
    for number, pattern in enumerate(catalogue.patterns):
        literals = [catalogue.literals[literal].decode() for literal in pattern.literals]
        for line in lines:
            if catalogue.regex(number).search(line):
                assert any(literal in line for literal in literals), (pattern.regex, line)


def _log(sample: str | dict[str, str]) -> str:
    return sample if isinstance(sample, str) else sample["log"]


@pytest.mark.parametrize(
    ("pattern", "literals"),
    [
        (r"failed to extend /dev/shm/\S+", {"failed to extend /dev/shm/"}),
        (r"Call to (?:ibv_create_qp|ibv_reg_mr) failed", {"Call to ibv_create_qp", "Call to ibv_reg_mr"}),
        (r"[Oo]ut of memory: Kill(?:ed)? process", {"ut of memory: Kill"}),
        (r"(?i:warning): device busy", {": device busy"}),
        (r"a+ ?(?:long enough)+", {"long enough"}),
    ],
)
def test_literals_are_what_a_match_must_hold(pattern: str, literals: set[str]) -> None:
    assert required_literals(pattern) == literals


@pytest.mark.parametrize("pattern", [r"\d+ \w+", r"abc", r"(?:long one|\d+)", r"(?i)warning"])
def test_a_pattern_without_fixed_text_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="no fixed text"):
        required_literals(pattern)


def test_rules_have_their_own_documentation() -> None:
    assert all(rule.__doc__ for rule in RULES)
