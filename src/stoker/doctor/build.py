"""Make the index and the texts from the signature files: `python -m stoker.doctor.build`.

Run it after each change under `signatures/`; a test says so if it was forgotten.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stoker.doctor.literals import required_literals

FOLDER = Path(__file__).parent / "signatures"
DEFAULT_LIMIT = 40
DEFAULT_WEIGHT = 0.9
TEXT_KEYS = ("title", "meaning", "fix", "confirm", "collect")


def read_yaml(path: Path) -> Any:
    """Parse one file, with libyaml where it is there."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), loader)  # both loaders are the safe ones


def read_causes(folder: Path = FOLDER) -> Iterator[dict[str, Any]]:
    """Every cause of every signature file, with the family of its file, and by what it is shown: `log` or `run`."""
    for path in sorted(folder.glob("*.yaml")):
        content = read_yaml(path)
        for cause in content.get("causes", ()):
            kind = content.get("shown_by", "log")
            yield {"family": content.get("family", path.stem), "shown_by": kind, "file": path.name, **cause}


class _Patterns:
    """Numbers for patterns and literals, each stored once."""

    def __init__(self) -> None:
        self.rows: list[list[Any]] = []
        self.literals: dict[str, int] = {}
        self._numbers: dict[str, int] = {}

    def number(self, regex: str, limit: int = DEFAULT_LIMIT, given: Iterable[str] = ()) -> int:
        """The number of a pattern; `given` are its literals where it has none of its own long enough."""
        if regex not in self._numbers:
            re.compile(regex)
            texts = sorted(_literals(regex, given))
            literals = [self.literals.setdefault(text, len(self.literals)) for text in texts]
            self._numbers[regex] = len(self.rows)
            self.rows.append([regex, literals, limit])
        row = self.rows[self._numbers[regex]]
        row[2] = max(row[2], limit)
        return self._numbers[regex]


def _literals(regex: str, given: Iterable[str]) -> Iterable[str]:
    try:
        return required_literals(regex)
    except ValueError:
        if not given:
            raise
        return given


def build_index(folder: Path = FOLDER) -> dict[str, Any]:
    """What is needed to match a log: patterns, their literals, and the clauses of each cause.

    Raises:
        ValueError: A signature is malformed; the message names it.
    """
    patterns = _Patterns()
    facts: dict[str, list[int]] = {}
    for path in sorted(folder.glob("*.yaml")):
        for name, row in (read_yaml(path).get("facts") or {}).items():
            limit = row.get("limit", DEFAULT_LIMIT)
            given = row.get("literals", ())
            facts[name] = [patterns.number(regex, limit, given) for regex in row["patterns"]]
    causes: dict[str, Any] = {}
    for cause in read_causes(folder):
        identifier = cause["id"]
        if identifier in causes:
            raise ValueError(f"{cause['file']}: the cause {identifier} is there twice")
        try:
            clauses = [_clause(row, patterns, facts) for row in cause.get("when", ())]
        except (ValueError, KeyError, re.error) as problem:
            raise ValueError(f"{cause['file']}: {identifier}: {problem}") from problem
        causes[identifier] = {
            "family": cause["family"],
            "state": cause.get("state", "fail"),
            "role": cause.get("role", "root"),
            "explains": cause.get("explains", []),
            "clauses": clauses,
        }
    return {
        "patterns": patterns.rows,
        "literals": list(patterns.literals),
        "facts": facts,
        "causes": causes,
        "xids": {str(code): cause["id"] for cause in read_causes(folder) for code in cause.get("xid", ())},
    }


def _clause(row: str | Mapping[str, Any], patterns: _Patterns, facts: Mapping[str, list[int]]) -> list[Any]:
    """A clause as `[all, none, context, weight]`; a bare string is one pattern that is enough."""

    def numbers(item: str | list[str]) -> list[int]:
        if isinstance(item, list):
            return [number for one in item for number in numbers(one)]
        return facts[item[1:]] if item.startswith("@") else [patterns.number(item)]

    if isinstance(row, str):
        return [[numbers(row)], [], [], DEFAULT_WEIGHT]
    unknown = set(row) - {"all", "none", "context", "weight"}
    if unknown or not row.get("all"):
        raise ValueError(f"a clause has `all` and may have `none`, `context`, `weight`: {row!r}")
    for pattern in row.get("context", ()):
        re.compile(pattern)
    return [
        [numbers(item) for item in row["all"]],
        [number for item in row.get("none", ()) for number in numbers(item)],
        row.get("context", []),
        row.get("weight", DEFAULT_WEIGHT),
    ]


def build_texts(language: str, folder: Path = FOLDER) -> dict[str, Any]:
    """What is said about each cause; in a language other than English from `signatures/<language>/`."""
    translated: dict[str, Any] = {}
    if language != "en":
        for path in sorted((folder / language).glob("*.yaml")):
            translated |= read_yaml(path)
    texts: dict[str, Any] = {}
    for cause in read_causes(folder):
        row = translated[cause["id"]] if translated else cause
        texts[cause["id"]] = {
            "title": row["title"],
            "meaning": row["meaning"],
            "fix": row["fix"],
            "confirm": row.get("confirm", ""),
            "collect": row.get("collect", []),
            "source": cause["source"],
        }
    return texts


def outputs(folder: Path = FOLDER) -> dict[str, str]:
    """The files to be written, by name."""
    made = {"index.json": build_index(folder), "texts.en.json": build_texts("en", folder)}
    if (folder / "zh").is_dir():
        made["texts.zh.json"] = build_texts("zh", folder)
    return {name: json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n" for name, data in made.items()}


def main() -> None:
    """Write the index and the texts next to the signature files."""
    for name, content in outputs().items():
        (FOLDER / name).write_text(content, encoding="utf-8")
        sys.stdout.write(f"{FOLDER / name}: {len(content)} characters\n")


if __name__ == "__main__":
    main()
