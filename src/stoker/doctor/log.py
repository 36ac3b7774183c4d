"""`stoker doctor log`: from a pasted log to ranked causes with their fixes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from stoker.doctor.catalogue import Catalogue, load_catalogue, load_texts
from stoker.doctor.reading import open_log, read_blocks
from stoker.doctor.reasoning import Facts, Verdict, judge_signature, rank
from stoker.doctor.rules import RULES
from stoker.doctor.scanning import Scan, scan_blocks
from stoker.finding import Evidence, Finding

MAX_FINDINGS = 8
"""What more than this many causes would say, nobody reads."""

MAX_QUOTE = 2000
"""Characters quoted of one line."""


@dataclass(frozen=True)
class Diagnosis:
    """The answer to one log.

    Attributes:
        findings: The causes, the likeliest first; empty if nothing wrong was found.
        lines: How many lines were read.
        size: How many bytes were read, after unpacking.
    """

    findings: tuple[Finding, ...]
    lines: int
    size: int

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "schema": 1,
            "lines": self.lines,
            "bytes": self.size,
            "findings": [finding.to_json() for finding in self.findings],
        }


def diagnose(name: str, *, context: str = "", language: str = "en") -> Diagnosis:
    """Read the log at a path, or on the standard input for `-`, and say what is wrong.

    Args:
        name: A path, or `-`. Compressed logs are read as well.
        context: What the person knows besides: `2x RTX 4090, driver 550, docker`.
        language: `en` or `zh`.

    Raises:
        UserError: The file cannot be read as a log.
    """
    with open_log(name) as stream:
        return diagnose_blocks(read_blocks(stream), context=context, language=language)


def diagnose_text(text: str, *, context: str = "", language: str = "en") -> Diagnosis:
    """Say what is wrong in a text.

    >>> answer = diagnose_text("RuntimeError: CUDA error: uncorrectable ECC error encountered")
    >>> answer.findings[0].cause
    'uncorrectable-ecc-error'
    """
    data = text.encode("utf-8", "replace")
    return diagnose_blocks([(data, 0)] if data else [], context=context, language=language)


def diagnose_blocks(blocks: Iterable[tuple[bytes, int]], *, context: str = "", language: str = "en") -> Diagnosis:
    """Say what is wrong in a log that comes in blocks, as `read_blocks` yields them."""
    catalogue = load_catalogue()
    context = context.encode("utf-8", "replace").decode()  # an argument may hold bytes of another encoding
    scan = scan_blocks(blocks, catalogue)
    verdicts = judge(catalogue, scan, context)
    texts = load_texts(language) if verdicts else {}
    findings = tuple(_finding(one, catalogue, texts) for one in verdicts[:MAX_FINDINGS])
    return Diagnosis(findings, scan.lines, scan.size)


def judge(catalogue: Catalogue, scan: Scan, context: str) -> list[Verdict]:
    """Every signature and every rule, ranked."""
    facts = Facts(catalogue, scan, context)
    verdicts = [
        found for signature in catalogue.signatures.values() if (found := judge_signature(signature, scan, context))
    ]
    for rule in RULES:
        verdicts.extend(rule(facts))
    return rank(verdicts, catalogue.signatures)


def _finding(one: Verdict, catalogue: Catalogue, texts: Any) -> Finding:
    signature, text = catalogue.signatures[one.cause], texts[one.cause]
    return Finding(
        state=signature.state,
        cause=one.cause,
        title=text.title,
        confidence=round(one.weight, 2),
        evidence=tuple(
            Evidence(quote.text[:MAX_QUOTE], quote.line or None, "" if quote.line else "context")
            for quote in one.evidence
        ),
        meaning=text.meaning,
        fix=text.fix,
        confirm=text.confirm,
        collect=text.collect,
        source=text.source,
        area=signature.family,
        follows_from=one.follows_from,
    )
