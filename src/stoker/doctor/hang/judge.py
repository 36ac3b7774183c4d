"""Which rank is missing: pure functions over what was seen of a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from stoker.doctor.hang.flight import Comparison, Entry
from stoker.doctor.hang.job import Rank
from stoker.doctor.hang.ras import Peer, RasStatus, behind
from stoker.doctor.hang.stacks import Stack
from stoker.finding import Evidence

MOST_SHOWN = 4
"""Ranks quoted on each side of a comparison."""


@dataclass(frozen=True)
class Look:
    """What two looks at a rank, a moment apart, showed.

    Attributes:
        rank: Which.
        state: What the scheduler says of it.
        kernel: Function of the kernel it sleeps in.
        busy: Share of one core it used between the looks; None if unknown.
        stack: Where it stood the second time; None if that could not be seen.
        moved: Whether it stood elsewhere the first time.
    """

    rank: Rank
    state: str
    kernel: str = ""
    busy: float | None = None
    stack: Stack | None = None
    moved: bool = False

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return "unknown" if self.stack is None else self.stack.place

    def __str__(self) -> str:
        verb = "waits in" if self.stack is not None and self.stack.waits_in else "stands in"
        asleep = f"{self.state}, in the kernel's {self.kernel}" if self.state == "disk sleep" else self.state
        return f"{self.rank.name} {verb} {self.place}, {asleep}"


@dataclass(frozen=True)
class Suspicion:
    """A cause with what shows it."""

    cause: str
    confidence: float
    evidence: tuple[Evidence, ...] = field(default=())


def judge_stacks(looks: Sequence[Look]) -> Iterator[Suspicion]:
    """Ranks that wait in a collective against those that stand elsewhere."""
    seen = [look for look in looks if look.stack is not None]
    waiting = [look for look in seen if look.stack is not None and look.stack.waits_in and not look.moved]
    absent = [look for look in looks if look not in waiting and (look.stack is None or not look.stack.waits_in)]
    stopped = [look for look in looks if look.state in ("stopped", "traced", "zombie", "gone")]
    if stopped and len(looks) > 1:
        shown = (Evidence(f"{look.rank.name} is {look.state}", source="/proc") for look in stopped[:MOST_SHOWN])
        yield Suspicion("rank-unresponsive", 0.95, tuple(shown))
    if not waiting or len(looks) < 2:
        return
    missing = [look for look in absent if look.stack is not None]
    if missing:
        yield Suspicion("rank-missing-from-collective", 0.9, _quoted([*missing[:MOST_SHOWN], *waiting[:MOST_SHOWN]]))
    elif len(waiting) == len(looks):
        yield _all_wait(waiting)


def _all_wait(waiting: Sequence[Look]) -> Suspicion:
    """All are inside: at one place, or each in a collective of its own."""
    places = Counter(look.stack.waits_in for look in waiting if look.stack is not None)
    if len(places) > 1 and "backward" not in places:
        first = {
            place: next(look for look in waiting if look.stack and look.stack.waits_in == place) for place in places
        }
        return Suspicion("ranks-run-different-collectives", 0.85, _quoted(list(first.values())[:MOST_SHOWN]))
    return Suspicion("all-ranks-wait-in-collective", 0.7, _quoted(waiting[:MOST_SHOWN]))


def _quoted(looks: Iterable[Look]) -> tuple[Evidence, ...]:
    return tuple(Evidence(str(look), source="py-spy") for look in looks)


def judge_ras(first: RasStatus, second: RasStatus) -> Iterator[Suspicion]:
    """Ranks that RAS calls dead or silent, and ranks whose count of collectives stays below that of the others."""
    if second.silent:
        shown = second.silent[:MOST_SHOWN]
        yield Suspicion("rank-unresponsive", 0.93, tuple(Evidence(str(peer), source="NCCL RAS") for peer in shown))
    late = behind(first, second)
    ranks: dict[Peer, str] = {}
    for operation, peer, count, most in late:
        text = f"{peer} has launched {operation} {count} times, the furthest rank {most} times, and did not move"
        ranks.setdefault(peer, text)
    if ranks:
        shown_texts = list(ranks.values())[:MOST_SHOWN]
        evidence = tuple(Evidence(text, source="NCCL RAS") for text in shown_texts)
        yield Suspicion("rank-missing-from-collective", 0.85, evidence)


def judge_dumps(comparisons: Iterable[Comparison]) -> Iterator[Suspicion]:
    """What the ranks recorded: different collectives at one number, or ranks that have not come to the newest."""
    for one in comparisons:
        if one.differing:
            yield Suspicion("ranks-run-different-collectives", 0.93, _each(one.differing.items()))
        elif one.behind:
            newest = f"the furthest rank is in number {one.newest.number}: {_entry(one.newest)}"
            late = (f"rank {rank} has entered {_last(entry)}" for rank, entry in list(one.behind.items())[:MOST_SHOWN])
            evidence = tuple(Evidence(text, source=f"flight recorder, group {one.group}") for text in (*late, newest))
            yield Suspicion("rank-missing-from-collective", 0.88, evidence)


def _each(entered: Iterable[tuple[int, Entry]]) -> tuple[Evidence, ...]:
    shown: dict[str, str] = {}
    for rank, entry in entered:
        shown.setdefault(entry.operation, f"rank {rank}, number {entry.number}: {_entry(entry)}")
    return tuple(Evidence(text, source="flight recorder") for text in list(shown.values())[:MOST_SHOWN])


def _last(entry: Entry | None) -> str:
    return "none" if entry is None else f"up to number {entry.number}: {_entry(entry)}"


def _entry(entry: Entry) -> str:
    return f"{entry.operation} {entry.sizes}" + (f" from {entry.place}" if entry.place else "")
