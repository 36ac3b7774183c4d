"""One pass over a log: every line that a pattern matches, in memory that does not grow with the log."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from stoker.doctor.catalogue import Catalogue
from stoker.doctor.lines import ANSI_BYTES, Origin, clean, is_command, origin_of, without_prefix
from stoker.doctor.prefilter import make_prefilter

BEFORE, AFTER = 3000, 5000
"""How much of a very long line is looked at around a literal, in bytes."""

JOIN_BYTES = 1 << 18
"""A paste up to this size is also read with its wrapped lines joined."""

WRAP_LENGTH = 60
"""A line shorter than this was not broken by a terminal."""

FOLLOWING = 800
"""How much of what follows a line is kept with it, in bytes."""

BUSY = 5000
"""From this many literals found in one block on, those that can tell nothing new are dropped."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a pattern matches.

    Attributes:
        pattern: The number of the pattern.
        line: The number of the line, from 1.
        text: The line as it stands in the log; cut where it is very long.
        match: What matched, with its named groups, in the line without colours and advice.
        origin: Whose line it is.
        after: What follows the line, for messages that a terminal has broken.
    """

    pattern: int
    line: int
    text: str
    match: re.Match[str]
    origin: Origin
    after: str = ""

    def __getitem__(self, group: str) -> str:
        """A named group of the match; empty where it took no part."""
        return self.match.groupdict().get(group) or ""

    def readings(self) -> tuple[str, str, str]:
        """From the match on: the line alone, and joined with its followers in two ways."""
        start = self.match.string[self.match.start() :]
        following = [without_prefix(line.rstrip("\r")) for line in self.after.lstrip("\r\n").split("\n")[:8]]
        return start, "".join([start, *following]), " ".join([start, *map(str.strip, following)])


@dataclass
class Scan:
    """Everything that was found in a log.

    Attributes:
        hits: By number of the pattern, in the order of the log, up to the limit of the pattern.
        lines: How many lines the log has.
        size: How many bytes the log has.
    """

    hits: dict[int, list[Hit]] = field(default_factory=lambda: defaultdict[int, list[Hit]](list))
    lines: int = 0
    size: int = 0


@dataclass(slots=True)
class _Candidate:
    start: int
    end: int
    literals: set[int]


class Scanner:
    """Matches blocks against a catalogue and keeps the hits."""

    def __init__(self, catalogue: Catalogue, expected_bytes: int) -> None:
        self._catalogue = catalogue
        self._full: set[int] = set()
        self._prefilter = make_prefilter(catalogue.literals, expected_bytes)
        self._dropped: set[int] = set()
        self._full_when_dropped = 0
        self.scan = Scan()

    def _drop_exhausted(self) -> None:
        """Forget the literals all of whose patterns are full: they can tell nothing new."""
        by_literal = self._catalogue.by_literal
        exhausted = {number for number, patterns in enumerate(by_literal) if self._full.issuperset(patterns)}
        if exhausted > self._dropped:
            self._prefilter.drop(exhausted - self._dropped)
            self._dropped = exhausted
        self._full_when_dropped = len(self._full)

    def feed(self, block: bytes, repeated: int = 0) -> None:
        """Look at the next block; its first `repeated` bytes were in the block before."""
        raw = block
        if b"\x1b" in block:
            block = ANSI_BYTES.sub(b"", block)
        at, line = 0, self.scan.lines + 1 - block.count(b"\n", 0, repeated)
        raw_lines: list[bytes] | None = None
        found = self._prefilter.find(block)
        for candidate in self._candidates(block, found):
            line += block.count(b"\n", at, candidate.start)
            at = candidate.start
            text = _decode(block[candidate.start : candidate.end])
            quoted = text
            if raw is not block:
                raw_lines = raw_lines or raw.split(b"\n")
                quoted = _raw_segment(raw_lines[line - self.scan.lines - 1], text)
            after = block[candidate.end : candidate.end + FOLLOWING]
            self.match_line(text, quoted, line, candidate.literals, after)
        self.scan.lines += block.count(b"\n", repeated)
        self.scan.size += len(raw) - repeated
        if len(found) > BUSY and len(self._full) > self._full_when_dropped:
            self._drop_exhausted()

    def _candidates(self, block: bytes, found: list[tuple[int, int]]) -> Iterator[_Candidate]:
        """Group what was found by line; a carriage return starts a new one, as a terminal shows it."""
        current = _Candidate(-1, -1, set())
        for number, offset in found:
            if offset < current.end:
                current.literals.add(number)
                continue
            if current.literals:
                yield current
            low, high = max(0, offset - BEFORE), offset + AFTER
            start = max(block.rfind(b"\n", low, offset), block.rfind(b"\r", low, offset)) + 1 or low
            end = block.find(b"\n", offset, high)
            carriage = block.find(b"\r", offset, end if end >= 0 else high)
            end = carriage if carriage >= 0 else end if end >= 0 else min(high, len(block))
            current = _Candidate(start, max(end, offset + 1), {number})
        if current.literals:
            yield current

    def match_line(self, text: str, quoted: str, line: int, literals: Iterable[int], after: bytes = b"") -> None:
        """Try the patterns that belong to the literals found in a line, with and without its prefix."""
        words = clean(text)
        if is_command(words):
            return
        bare: str | None = None
        origin: Origin | None = None
        numbers = {number for literal in literals for number in self._catalogue.by_literal[literal]}
        for number in numbers - self._full:
            regex = self._catalogue.regex(number)
            match = regex.search(words)
            if match is None and regex.pattern.startswith("^"):
                bare = without_prefix(words).strip() if bare is None else bare
                match = regex.search(bare)
            if match:
                origin = origin or origin_of(words)
                self._keep(Hit(number, line, quoted, match, origin, _decode(after)))

    def _keep(self, hit: Hit) -> None:
        hits = self.scan.hits[hit.pattern]
        hits.append(hit)
        if len(hits) >= self._catalogue.patterns[hit.pattern].limit:
            self._full.add(hit.pattern)

    def rejoin(self, text: bytes) -> None:
        """Read a small log once more with its wrapped lines joined, for what is not within one line."""
        known = set(self.scan.hits)
        raw = [_decode(line) for line in text.split(b"\n")]
        lines = [_decode(line) for line in ANSI_BYTES.sub(b"", text).split(b"\n")]
        joined = list(_joined_lines(lines))
        if not joined:
            return
        blob = "\n".join(words for _, words in joined).encode("utf-8", "replace")
        at = entry = 0
        for candidate in self._candidates(blob, self._prefilter.find(blob)):
            entry += blob.count(b"\n", at, candidate.start)
            at = candidate.start
            index, _ = joined[entry]
            quoted = raw[index].strip("\r")
            words = clean(_decode(blob[candidate.start : candidate.end]))
            for number in {n for literal in candidate.literals for n in self._catalogue.by_literal[literal]} - known:
                match = self._catalogue.regex(number).search(words)
                if match and match.start() < len(quoted) and number not in self._full:
                    self._keep(Hit(number, index + 1, quoted, match, origin_of(words)))


def _joined_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Every line that a terminal may have broken, with one or two followers, with and without a space."""
    for index, line in enumerate(lines[:-1]):
        first = clean(line).replace("\r", "").rstrip()
        if not WRAP_LENGTH <= len(first) <= AFTER:
            continue
        rest = [without_prefix(clean(follower)).replace("\r", "").strip() for follower in lines[index + 1 : index + 3]]
        for glue in ("", " "):
            for count in range(1, len(rest) + 1):
                yield index, glue.join([first, *rest[:count]])


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _raw_segment(raw: bytes, text: str) -> str:
    """The coloured line, or the piece of it between carriage returns, that became `text`."""
    for piece in raw.split(b"\r"):
        if _decode(ANSI_BYTES.sub(b"", piece)) == text:
            return _decode(piece)
    return text


def scan_blocks(blocks: Iterable[tuple[bytes, int]], catalogue: Catalogue) -> Scan:
    """Scan a whole log, given as `stoker.doctor.reading.read_blocks` yields it."""
    scanner: Scanner | None = None
    only: bytes | None = b""
    ends_with_newline = True
    for block, repeated in blocks:
        if scanner is None:
            scanner = Scanner(catalogue, len(block))
            only = block if len(block) <= JOIN_BYTES else None
        elif only is not None:
            only = only + block[repeated:] if len(only) + len(block) <= JOIN_BYTES else None
        scanner.feed(block, repeated)
        ends_with_newline = block.endswith(b"\n")
    if scanner is None:
        return Scan()
    if only is not None:
        scanner.rejoin(only)
    if not ends_with_newline:
        scanner.scan.lines += 1
    return scanner.scan
