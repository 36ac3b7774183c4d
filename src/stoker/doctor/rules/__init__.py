"""Rules that combine several facts of a log, where one pattern is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.doctor.reasoning import Facts, Verdict

RULES: tuple[Callable[[Facts], Iterable[Verdict]], ...] = ()
