"""The pages of the alerts are made from the tables, and were made again after the last change."""

from __future__ import annotations

from scripts.build_alert_pages import FOLDER, wanted


def test_the_alert_pages_are_up_to_date() -> None:
    there = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert there == wanted(), "run: PYTHONPATH=src python scripts/build_alert_pages.py"
