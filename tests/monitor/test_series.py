"""The table of series agrees with the data model, with the facts and with Prometheus' conventions."""

import re
import runpy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from stoker.facts.signals import metrics as facts_metrics
from stoker.monitor.model import MachineSample
from stoker.monitor.series import Series, all_series

SUFFIX = {"bytes": "bytes", "seconds": "seconds", "ratio": "ratio", "celsius": "celsius", "watts": "watts",
          "joules": "joules", "hertz": "hertz", "bytes per second": "bytes_per_second"}  # fmt: skip


def records_of(series: Series) -> list[tuple[type[Any], str]]:
    """The record types along the path, each with the field that is taken from it."""
    chain: list[tuple[type[Any], str]] = []
    record: Any = MachineSample
    for name in series.field.split("."):
        hint = get_type_hints(record)[name]
        chain.append((record, name))
        record = next((arg for arg in get_args(hint) if is_dataclass(arg)), hint)
    if is_dataclass(record):
        chain.append((record, ""))  # type: ignore[arg-type]
    return chain


def rows() -> list[Any]:
    return [pytest.param(series, id=series.name) for series in all_series()]


@pytest.mark.parametrize("series", rows())
def test_the_name_follows_the_conventions(series: Series) -> None:
    assert re.fullmatch(r"stoker_(gpu|host|run|exporter)_[a-z0-9_]+", series.name)
    assert series.name.endswith("_total") == (series.type == "counter")
    if series.unit in SUFFIX:
        assert series.name.removesuffix("_total").endswith(SUFFIX[series.unit])
    assert series.help
    assert series.source


@pytest.mark.parametrize("series", [series for series in rows() if series.values[0].field])
def test_the_field_and_the_labels_exist_in_the_model(series: Series) -> None:
    chain = records_of(series)
    names = {field.name for record, _ in chain for field in fields(record)}
    keys = [label for label in series.labels if label not in names]
    assert len(keys) <= 1, "at most one label is the key of a mapping"


def test_no_name_stands_twice() -> None:
    names = [series.name for series in all_series()]
    assert len(set(names)) == len(names)


def test_every_row_of_the_facts_is_answered() -> None:
    known = {row.metric for row in facts_metrics()}
    answered = {series.facts_row for series in all_series()} - {""}
    assert answered == known


def test_the_page_of_the_metrics_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    built = runpy.run_path(str(root / "scripts" / "build_metrics_page.py"))["page"]()
    page = root / "docs" / "reference" / "metrics.md"
    assert page.read_text(encoding="utf-8") == built, "run scripts/build_metrics_page.py"
