"""How much of a step is waiting for data."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

WAITING_SHARE = 0.6
"""From this share of the step on, data is what limits."""

MIN_STEP_SECONDS = 0.05


def judge_loading(facts: Facts) -> Iterator[Verdict]:
    """Training logs that print the time of a step and of its data."""
    shares = [(hit, share) for hit in facts.hits("epoch_times") if (share := _share(hit)) is not None]
    later = list(islice(shares, 1, None)) or shares  # the first step also starts the workers
    waiting = [hit for hit, share in later if share >= WAITING_SHARE]
    if len(waiting) > len(later) / 2 and (len(shares) > 1 or facts.said("slow|load|disk|data|nfs")):
        slow = facts.said(r"disk|hdd|spinning|nfs|storage|small files|ssd")
        yield verdict("data-loading-disk-bound", 0.9 if slow else 0.8, waiting)


def _share(hit: Hit) -> float | None:
    """Data time over step time, from the averages where the log prints them."""
    if hit["first"]:
        first, second = float(hit["a"]), float(hit["b"])
        data, step = (first, second) if "ata" in hit["first"] else (second, first)
    else:
        data = float(hit["dataavg"] or hit["data"])
        step = float(hit["timeavg"] or hit["time"])
    return data / step if step >= MIN_STEP_SECONDS and data <= step else None
