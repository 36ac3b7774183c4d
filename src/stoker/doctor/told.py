"""Findings of causes that are shown by something else than a log."""

from __future__ import annotations

from collections.abc import Iterable

from stoker.doctor.catalogue import load_catalogue, load_texts
from stoker.finding import Evidence, Finding


def finding_of(cause: str, confidence: float, evidence: Iterable[Evidence], language: str) -> Finding:
    """A cause of the signature files with its texts."""
    text, signature = load_texts(language)[cause], load_catalogue().signatures[cause]
    return Finding(
        state=signature.state,
        cause=cause,
        title=text.title,
        confidence=round(confidence, 2),
        evidence=tuple(evidence),
        meaning=text.meaning,
        fix=text.fix,
        confirm=text.confirm,
        collect=text.collect,
        source=text.source,
        area=signature.family,
    )
