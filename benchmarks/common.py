"""What every benchmark prints."""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        name: What was measured.
        value: The figure; None where it could not be measured.
        unit: Its unit.
        goal: What it should reach; None where there is no goal.
        higher_is_better: Which side of the goal is good.
    """

    name: str
    value: float | None
    unit: str
    goal: float | None = None
    higher_is_better: bool = True

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached."""
        if self.goal is None or self.value is None:
            return None
        return self.value >= self.goal if self.higher_is_better else self.value <= self.goal


def machine(*packages: str) -> dict[str, Any]:
    """This machine and the versions that were measured."""
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.processor())  # fmt: skip
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "python": sys.version.split()[0],
        "versions": {name: _version(name) for name in packages},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def replace_tables(page: Path, tables: Mapping[str, Sequence[str]]) -> None:
    """Write tables into a page of the documentation, each between the two comments that name it.

    Raises:
        ValueError: The page has no such place.
    """
    text = page.read_text(encoding="utf-8")
    for name, lines in tables.items():
        first, last = f"<!-- table: {name} -->", f"<!-- end of table: {name} -->"
        before, found, rest = text.partition(first)
        _, ended, after = rest.partition(last)
        if not (found and ended):
            raise ValueError(f"{page} has no {first} and {last}")
        text = "\n".join([before + first, "", *lines, "", last + after])
    page.write_text(text, encoding="utf-8")


def report(figures: list[Figure], about: dict[str, Any], *, as_json: bool, **more: Any) -> None:
    """Print the figures as a table, or as the one JSON object, with what else belongs there."""
    if as_json:
        print(json.dumps({"machine": about, "figures": [asdict(figure) for figure in figures], **more}, indent=1))
        return
    print(", ".join(f"{key}: {value}" for key, value in about.items()))
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        value = "not measured" if figure.value is None else f"{figure.value:.4g} {figure.unit}"
        relation = "at least" if figure.higher_is_better else "at most"
        goal = "" if figure.goal is None else f"  ({relation} {figure.goal:g}: {'yes' if figure.met else 'NO'})"
        print(f"{figure.name:<{width}}  {value}{goal}")
