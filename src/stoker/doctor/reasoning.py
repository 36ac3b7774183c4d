"""From lines that matched to causes, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from stoker.doctor.catalogue import Catalogue, Clause, Signature
from stoker.doctor.scanning import Hit, Scan

SPEAKS_AT = 0.3
"""Below this confidence nothing is said."""

EXPLAINS_AT = 0.5
"""From this confidence on a cause pushes those that follow from it behind itself."""

MAX_EVIDENCE = 5
"""Lines quoted for one cause."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A line that shows a cause; line 0 is the context that the person added."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A cause, how sure it is, and the lines that show it."""

    cause: str
    weight: float
    evidence: tuple[Quote, ...]
    follows_from: str = ""

    @property
    def first_line(self) -> int:
        """Where it shows first."""
        return min((quote.line for quote in self.evidence if quote.line), default=1 << 60)


class Facts:
    """What the rules ask: which named patterns were found, and what the person said."""

    def __init__(self, catalogue: Catalogue, scan: Scan, context: str) -> None:
        self._catalogue = catalogue
        self._scan = scan
        self.context = context

    @property
    def xids(self) -> Mapping[int, str]:
        """The cause of each Xid that asks for an action."""
        return self._catalogue.xids

    def hits(self, *names: str) -> list[Hit]:
        """The lines on which one of the named facts stands, in the order of the log."""
        found = [
            hit for name in names for number in self._catalogue.facts[name] for hit in self._scan.hits.get(number, ())
        ]
        return sorted(found, key=lambda hit: hit.line) if len(names) > 1 or len(found) > 1 else found

    def has(self, *names: str) -> bool:
        """Whether one of the named facts stands anywhere in the log."""
        return any(self._scan.hits.get(number) for name in names for number in self._catalogue.facts[name])

    def said(self, pattern: str) -> bool:
        """Whether the context matches, ignoring case."""
        return bool(re.search(pattern, self.context, re.IGNORECASE))


def quotes(hits: Iterable[Hit], most: int = MAX_EVIDENCE) -> tuple[Quote, ...]:
    """The lines of these hits, each once, in the order of the log."""
    seen: dict[int, Quote] = {}
    for hit in hits:
        seen.setdefault(hit.line, Quote(hit.line, hit.text))
    return tuple(sorted(seen.values(), key=lambda quote: quote.line)[:most])


def verdict(cause: str, weight: float, *hits: Iterable[Hit], context: str = "") -> Verdict:
    """A verdict of a rule: a few lines of each group of hits, and the context where it took part."""
    share = max(1, MAX_EVIDENCE // max(1, len(hits)))
    evidence = [quote for group in hits for quote in quotes(group, share)]
    if context:
        evidence.append(Quote(0, context))
    return Verdict(cause, weight, tuple(dict.fromkeys(sorted(evidence, key=lambda quote: quote.line))))


def judge_signature(signature: Signature, scan: Scan, context: str) -> Verdict | None:
    """The best of the clauses that hold; others that hold as well make it a little surer."""
    held = [clause for clause in signature.clauses if _holds(clause, scan, context)]
    if not held:
        return None
    best = max(held, key=lambda clause: clause.weight)
    numbers = [number for clause in (best, *held) for group in clause.all for number in group]
    first = [scan.hits[number][0] for number in numbers if scan.hits.get(number)]
    more = [hit for number in numbers[:1] for hit in scan.hits.get(number, ())[1:3]]
    evidence = list(quotes([*first[:MAX_EVIDENCE], *more]))
    if best.context:
        evidence.append(Quote(0, context))
    return Verdict(signature.cause, min(0.99, best.weight + 0.01 * min(3, len(held) - 1)), tuple(evidence))


def _holds(clause: Clause, scan: Scan, context: str) -> bool:
    return (
        all(any(scan.hits.get(number) for number in group) for group in clause.all)
        and not any(scan.hits.get(number) for number in clause.none)
        and all(re.search(pattern, context, re.IGNORECASE) for pattern in clause.context)
    )


def rank(verdicts: Iterable[Verdict], signatures: Mapping[str, Signature]) -> list[Verdict]:
    """Best first: one verdict per cause, and none before the cause it follows from."""
    best: dict[str, Verdict] = {}
    for one in verdicts:
        if one.weight >= SPEAKS_AT and (one.cause not in best or one.weight > best[one.cause].weight):
            best[one.cause] = one
    for strong in sorted(best.values(), key=_order):
        if strong.weight < EXPLAINS_AT:
            break
        for weak in _explained_by(strong, best.values(), signatures):
            weight = min(weak.weight, best[strong.cause].weight - 0.1)
            best[weak.cause] = Verdict(weak.cause, round(weight, 3), weak.evidence, strong.cause)
    return [one for one in sorted(best.values(), key=_order) if one.weight >= SPEAKS_AT]


def _order(one: Verdict) -> tuple[float, int, str]:
    return (-round(one.weight, 2), one.first_line, one.cause)


def _explained_by(strong: Verdict, others: Iterable[Verdict], signatures: Mapping[str, Signature]) -> Sequence[Verdict]:
    """What follows from `strong`: what it names, and what is by nature a consequence or a last resort."""
    mine = signatures[strong.cause]
    level = {"root": 2, "cascade": 1, "generic": 0}
    return [
        other
        for other in others
        if other.cause != strong.cause
        and not _names(signatures[other.cause].explains, mine)
        and (_names(mine.explains, signatures[other.cause]) or level[mine.role] > level[signatures[other.cause].role])
    ]


def _names(explains: Sequence[str], signature: Signature) -> bool:
    return any(
        name == signature.cause
        or (name.endswith("*") and signature.cause.startswith(name[:-1]))
        or name == f"family:{signature.family}"
        for name in explains
    )
