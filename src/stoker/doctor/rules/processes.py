"""What the tables of nvidia-smi say about who uses which GPU."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

HIDDEN_MIB = 1500
"""More than drivers and display take on a card that nobody uses."""


def judge_processes(facts: Facts) -> Iterator[Verdict]:
    """Ranks that also sit on GPU 0, and memory that no listed process explains."""
    rows = facts.hits("smi_process")
    gpus: defaultdict[str, set[str]] = defaultdict(set)
    for row in rows:
        if "C" in row["kind"]:
            gpus[row["pid"]].add(row["gpu"])
    everywhere = {pid for pid, used in gpus.items() if "0" in used and len(used) > 1}
    if everywhere and len(gpus) > 1:
        shown = [row for row in rows if row["pid"] in everywhere]
        yield verdict("all-ranks-open-context-on-gpu0", 0.92, shown)
    if not rows:
        yield from _hidden_memory(facts)


def _hidden_memory(facts: Facts) -> Iterator[Verdict]:
    """A card that is full and idle, with an empty table of processes below it."""
    table = facts.hits("smi_processes_header", "smi_no_process")
    full = [row for row in facts.hits("smi_memory") if _is_held_idle(row)]
    failed = facts.hits("oom", "oom_bare")
    if full and table:
        yield verdict("other-process-holds-gpu-memory", 0.9 if failed else 0.75, full, table[-1:])
    elif full and failed:
        yield verdict("other-process-holds-gpu-memory", 0.6, full, failed[:1])


def _is_held_idle(row: Hit) -> bool:
    used, total = int(row["used"]), int(row["total"])
    return used > max(HIDDEN_MIB, 0.3 * total) and row["util"] in {"0", "N/A"}
