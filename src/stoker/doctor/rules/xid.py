"""Xid messages of the NVIDIA driver, by their number; the text behind it may change between releases."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

CONSEQUENCES = frozenset({43, 45, 174})
"""Codes that report what the driver did after another error."""

_RECOVERY = re.compile(r"(?:to|->|=)\s*0x[0-9a-f]+ \((?P<action>[^)]*)\)|changed from .{0,40} to (?P<plain>[A-Za-z ]+)")


def judge_xids(facts: Facts) -> Iterator[Verdict]:
    """One verdict per code, the earliest line of each as evidence."""
    by_code: dict[int, list[Hit]] = {}
    for hit in facts.hits("xid"):
        by_code.setdefault(int(hit["code"]), []).append(hit)
    for code, hits in by_code.items():
        cause = facts.xids.get(code)
        if cause is None or (code == 154 and not _asks_for_action(hits[-1])):
            continue
        in_kernel_log = any(hit["bus"] for hit in hits)
        weight = 0.9 if in_kernel_log else 0.7
        yield verdict(cause, weight - 0.3 if code in CONSEQUENCES else weight, hits)


def _asks_for_action(hit: Hit) -> bool:
    """Xid 154 tells a change of the recommended action; a change to `None` clears it."""
    found = _RECOVERY.search(hit["rest"])
    action = (found["action"] or found["plain"] or "") if found else hit["rest"]
    return not re.match(r"\s*(?:None|GPU_RECOVERY_ACTION_NONE)\b", action)
