"""Takes out of a text what names people, machines and secrets, and leaves what a diagnosis needs.

Each thing becomes a pseudonym that is the same wherever it stands (`host-1`, `ip-2`), so that lines which belong
together still do. Two passes: `learn` finds out what the names are, `mask` replaces them. What names nobody stays:
loopback and unset addresses, versions that look like addresses, PCI addresses, accounts that every image has.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from stoker.doctor.bundle import shapes

Kind = Literal["host", "user", "ip", "mac", "guid", "serial", "uuid", "mail", "id", "secret"]
KINDS: tuple[Kind, ...] = ("host", "user", "ip", "mac", "guid", "serial", "uuid", "mail", "id", "secret")

SHORTEST_NAME = 4
"""A shorter name is replaced only where it surely is a name: as a word it means too much else."""
ANYWHERE = 8
"""A name of this length is replaced also inside of longer words."""
SHORTEST_SECRET = 6


@dataclass
class Masker:
    """Pseudonyms for one bundle.

    Attributes:
        counts: How often something of each kind was replaced.
    """

    counts: Counter[Kind] = field(default_factory=Counter[Kind])
    _names: dict[Kind, dict[str, int]] = field(default_factory=dict[Kind, dict[str, int]])
    _literals: dict[str, Kind] = field(default_factory=dict[str, Kind])
    _pattern: re.Pattern[str] | None = None

    def know(self, kind: Kind, values: Iterable[str]) -> None:
        """Replace these wherever they stand, unless they name nobody."""
        for value in values:
            value = value.strip()
            if kind == "host":
                self._know_host(value)
            elif kind == "user":
                if len(value) >= SHORTEST_NAME and value.lower() not in shapes.COMMON_USERS:
                    self._literals[value.lower()] = kind
            elif len(value) >= SHORTEST_SECRET and (kind != "serial" or shapes.is_serial(value)):
                self._literals[value.lower()] = kind
        self._pattern = None

    def _know_host(self, value: str) -> None:
        """A host by its full and its short name, each unless it is a word that machines have in common."""
        value = value.strip(".").lower()
        for name in dict.fromkeys((value, value.partition(".")[0])):
            if len(name) >= SHORTEST_NAME and name not in shapes.COMMON_HOSTS and not shapes.is_address(name):
                self._literals[name] = "host"

    def know_environment(self, environ: Mapping[str, str]) -> None:
        """Secrets, users and hosts that stand in variables."""
        for name, value in environ.items():
            if shapes.NAMES_SECRET.search(name):
                self.know("secret", [value])
        self.know("user", [environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")])
        self.know("host", [environ.get(name, "") for name in ("HOSTNAME", "HOST", "SLURMD_NODENAME")])

    def learn(self, text: str, name: str = "") -> None:
        """Find out from a text what names there are.

        Args:
            text: Its content.
            name: The path it comes from, which may say what it holds.
        """
        if kind := shapes.whole_file(name):
            self.know(kind, [text])
        for kind, pattern in shapes.TELLING:
            self.know(kind, (found for match in pattern.finditer(text) for found in match.groups() if found))

    def mask(self, text: str, name: str = "") -> str:
        """The text without them.

        Args:
            text: Its content.
            name: The path it comes from.
        """
        if (kind := shapes.whole_file(name)) and text.strip():
            return self._pseudonym(kind, text.strip()) + "\n"
        text = self._compiled().sub(lambda match: self._literal(match[0]), text) if self._literals else text
        for kind, pattern in shapes.PATTERNS:
            if kind == "ip" and shapes.lists_packages(name):
                continue
            text = pattern.sub(lambda match, kind=kind: self._shape(kind, match), text)
        return text

    def _compiled(self) -> re.Pattern[str]:
        if self._pattern is None:
            ordered = sorted(self._literals, key=lambda one: (-len(one), one))
            siblings = [pattern for one in ordered if self._literals[one] == "host" and (pattern := _siblings(one))]
            words = [*(self._bounded(one) for one in ordered), *dict.fromkeys(siblings)]
            self._pattern = re.compile("|".join(words), re.IGNORECASE)
        return self._pattern

    def _bounded(self, value: str) -> str:
        if self._literals[value] in ("host", "user") and len(value) < ANYWHERE:
            return rf"(?<![A-Za-z0-9]){re.escape(value)}(?![A-Za-z0-9])"
        return re.escape(value)

    def _literal(self, found: str) -> str:
        return self._pseudonym(self._literals.get(found.lower(), "host"), found)

    def _shape(self, kind: Kind, match: re.Match[str]) -> str:
        """Replace the part of a match that is named `it`, or the whole match, if it is what it looks like."""
        part = "it" if "it" in match.re.groupindex else 0
        value = match[part]
        if value is None or shapes.is_pseudonym(value) or not shapes.is_really(kind, value, match):
            return match[0]
        start, end = match.start(part) - match.start(), match.end(part) - match.start()
        return match[0][:start] + shapes.kept_prefix(kind, value) + self._pseudonym(kind, value) + match[0][end:]

    def _pseudonym(self, kind: Kind, value: str) -> str:
        """Each kind counts for itself; names differ by nothing but their letters' case are the same."""
        self.counts[kind] += 1
        numbers = self._names.setdefault(kind, {})
        key = value.lower()
        if kind == "host":  # a full name and its short form are one machine
            key = key.partition(".")[0]
        return f"{kind}-{numbers.setdefault(key, len(numbers) + 1)}"


def _siblings(host: str) -> str:
    """A pattern for the other machines of a numbered row, `gpu-[01-04]` included; empty for a name of another form.

    >>> re.findall(_siblings("train07"), "train12 train1 train[01-04] training")
    ['train12', 'train[01-04]']
    """
    found = re.fullmatch(r"([a-z][a-z-]*[a-z-])(\d{2,4})", host)
    if found is None:
        return ""
    prefix, digits = found.groups()
    return rf"(?<![A-Za-z0-9]){re.escape(prefix)}(?:\d{{{len(digits)}}}|\[[\d,-]+\])(?![A-Za-z0-9])"
