"""Which card people mean by a name: what is sold, printed by tools and said has many spellings."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

_DECORATION = {"nvidia", "amd", "geforce", "tesla", "quadro", "instinct", "radeon", "generation", "edition"}
"""Words of a printed name that do not tell two models apart."""

_VARIANT = re.compile(r"sxm|pcie|nvl|\d+gb|hbm\d?e?|gddr\dx?|lpddr\dx?")
"""Words that tell variants of one model apart: form factor, memory size and type."""

_ANOTHER = {"ti", "super", "d", "s", "x", "g", "e", "max"}
"""Words that make another model of a name: who says GTX 1080 does not mean the GTX 1080 Ti."""


@dataclass(frozen=True)
class Named:
    """What a card is called.

    Attributes:
        names: Each name of it in full.
        also: What else may stand in its name, such as its memory's size and type.
    """

    names: tuple[str, ...]
    also: tuple[str, ...] = ()


def meant(name: str, cards: Mapping[str, Named]) -> tuple[str, ...]:
    """The cards that `name` can mean, all equally good; none if it means no known one.

    A name in full means that card. Otherwise all words must stand in a card's names, and those cards are meant
    that need the fewest more to be told from others, not counting form factor and memory.
    """
    asked = tokens(name)
    if not asked:
        return ()
    for card, named in cards.items():
        if asked in map(tokens, named.names):
            return (card,)
    extra: dict[str, int] = {}
    for card, named in cards.items():
        more = _all_tokens(named) - asked
        if asked <= _all_tokens(named) and not more.keys() & _ANOTHER:
            extra[card] = sum(count for word, count in more.items() if not _VARIANT.fullmatch(word))
    best = min(extra.values(), default=0)
    return tuple(card for card, missing in extra.items() if missing == best)


@cache
def tokens(name: str) -> Counter[str]:
    """Words and numbers of a name; `H100` and `H 100` give the same, and so do SXM, SXM4 and SXM5."""
    plain = re.sub(r"\bgen\s?\d\b", " ", re.sub(r"sxm\d", "sxm ", name.lower()))
    words = re.findall(rf"(?:{_VARIANT.pattern})(?![a-z0-9])|[a-z]+|\d+", plain)
    return Counter(word for word in words if word not in _DECORATION)


@cache
def _all_tokens(named: Named) -> Counter[str]:
    words = Counter[str]()
    for text in (*named.names, *named.also):
        words |= tokens(text)
    return words


def listed(names: Iterable[str]) -> str:
    """The first of them for a sentence."""
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:6]) + (" and others" if len(unique) > 6 else "")


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The rest of a sentence that says a name is unknown: those nearest to it, or nothing."""
    by_plain = {_plain(known): known for known in names}
    near = difflib.get_close_matches(_plain(name), by_plain, n=3, cutoff=0.5)
    return f": did you mean {', '.join(by_plain[key] for key in near)}?" if near else ""


def _plain(name: str) -> str:
    return "".join(tokens(name).elements())
