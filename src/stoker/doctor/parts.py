"""Several logs read as one: a cause may stand in one rank's log, and its echo in all the others."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from stoker.doctor.log import Diagnosis, diagnose_blocks
from stoker.finding import Evidence, Finding


def diagnose_parts(parts: Sequence[tuple[str, str]], *, context: str = "", language: str = "en") -> Diagnosis:
    """Say what is wrong in several texts together; each line of evidence names the text it stands in.

    Args:
        parts: Name and text of each.
        context: What is known besides.
        language: `en` or `zh`.
    """
    blocks: list[tuple[bytes, int]] = []
    firsts: list[int] = []
    line = 1
    for _, text in parts:
        data = (text if text.endswith("\n") else text + "\n").encode("utf-8", "replace")
        firsts.append(line)
        line += data.count(b"\n")
        blocks.append((data, 0))
    found = diagnose_blocks(blocks, context=context, language=language)
    names = [name for name, _ in parts]
    return replace(found, findings=tuple(_placed(finding, firsts, names) for finding in found.findings))


def _placed(finding: Finding, firsts: Sequence[int], names: Sequence[str]) -> Finding:
    def placed(item: Evidence) -> Evidence:
        if item.line is None:
            return item
        part = bisect_right(firsts, item.line) - 1
        return Evidence(item.text, item.line - firsts[part] + 1, names[part])

    return replace(finding, evidence=tuple(map(placed, finding.evidence)))
