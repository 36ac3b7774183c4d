"""A diagnosis as text for a terminal."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from stoker.doctor.log import Diagnosis
from stoker.finding import Evidence, Finding

WIDTH = 100
MAX_LINE = 300
"""Characters of a quoted line that are shown; the JSON form has more."""

_WORDS = {
    "en": {
        "nothing": "Nothing wrong found in {lines} lines.",
        "unsure": "If it failed, give the whole log of every rank, and what you know as --context.",
        "also": "Also possible, or following from it:",
        "follows": "follows from {cause}",
        "confidence": "confidence {percent} %",
        "shows": "What shows it",
        "means": "What it means",
        "fix": "What mends it",
        "confirm": "How to see that it is mended",
        "collect": "What else would tell more",
        "context": "said",
        "line": "line {line}",
        "source": "Source",
        "colon": ":",
    },
    "zh": {
        "nothing": "在 {lines} 行中没有发现问题。",
        "unsure": "如果运行仍然失败，请提供所有 rank 的完整日志，并用 --context 补充已知情况。",
        "also": "也可能是，或由此引起：",
        "follows": "由 {cause} 引起",
        "confidence": "置信度 {percent} %",
        "shows": "依据",
        "means": "含义",
        "fix": "解决办法",
        "confirm": "如何确认已解决",
        "collect": "还可收集",
        "context": "补充说明",
        "line": "第 {line} 行",
        "source": "来源",
        "colon": "：",
    },
}


def render_text(diagnosis: Diagnosis, language: str) -> str:
    """The first cause in full, the others with their evidence."""
    words = _WORDS[language]
    if not diagnosis.findings:
        return f"{words['nothing'].format(lines=diagnosis.lines)}\n{words['unsure']}"
    return render_findings(diagnosis.findings, language)


def render_findings(findings: Sequence[Finding], language: str) -> str:
    """The first cause in full, the others with their first line; at least one is there."""
    words = _WORDS[language]
    first, *others = findings
    parts = [_full(first, words)]
    if others:
        parts.append("\n".join([words["also"], *(_brief(one, words) for one in others)]))
    return "\n\n".join(parts)


def _full(finding: Finding, words: dict[str, str]) -> str:
    lines = [
        finding.title,
        f"[{finding.cause}, {words['confidence'].format(percent=round(finding.confidence * 100))}]",
        "",
        words["shows"] + words["colon"],
        *_evidence(finding, words),
        "",
        words["means"] + words["colon"],
        *_wrapped(finding.meaning),
        "",
        words["fix"] + words["colon"],
    ]
    for number, step in enumerate(finding.fix, 1):
        lines += _wrapped(step, first=f"  {number}. ")
    if finding.confirm:
        lines += ["", words["confirm"] + words["colon"], *_wrapped(finding.confirm)]
    if finding.collect:
        lines += ["", words["collect"] + words["colon"]]
        for item in finding.collect:
            lines += _wrapped(item, first="  - ")
    lines += ["", words["source"] + words["colon"] + " " + finding.source]
    return "\n".join(lines)


def _brief(finding: Finding, words: dict[str, str]) -> str:
    note = words["confidence"].format(percent=round(finding.confidence * 100))
    if finding.follows_from:
        note = words["follows"].format(cause=finding.follows_from)
    return "\n".join([f"  {finding.title} [{finding.cause}, {note}]", *_evidence(finding, words)[:1]])


def _evidence(finding: Finding, words: dict[str, str]) -> list[str]:
    shown: list[str] = []
    for item in finding.evidence:
        text = printable(item.text)
        shown.append(f"  {_place(item, words)}: {text[:MAX_LINE]}{' …' if len(text) > MAX_LINE else ''}")
    return shown


def _place(item: Evidence, words: dict[str, str]) -> str:
    """Where a line stands: its number, its file where there are several, or that the person said it."""
    if item.line:
        number = words["line"].format(line=item.line)
        return f"{item.source}, {number}" if item.source else number
    return item.source if item.source not in ("", "context") else words["context"]


def printable(text: str) -> str:
    """A line of a log without anything that could steer the terminal."""
    text = re.sub(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07]*\x07)", "", text)
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text).strip()


def _wrapped(text: str, first: str = "  ") -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=" " * len(first),
        break_on_hyphens=False,
        break_long_words=False,
    )
