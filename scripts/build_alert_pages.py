"""Write docs/reference/alerts/ from the tables of the rules: one page per alert, and a list.

    PYTHONPATH=src python scripts/build_alert_pages.py

A test says so if this was forgotten after a change.
"""

from __future__ import annotations

import sys
from pathlib import Path

from stoker.monitor.rules.runbook import pages

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference" / "alerts"


def wanted() -> dict[str, str]:
    """The content of every file of the folder, by name."""
    return pages(lambda cause: f"[{cause}](../causes/{cause}.md)")


def main() -> None:
    """Write the folder anew."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    content = wanted()
    for old in FOLDER.glob("*.md"):
        if old.name not in content:
            old.unlink()
    for name, text in content.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"{len(content)} pages in {FOLDER}\n")


if __name__ == "__main__":
    main()
