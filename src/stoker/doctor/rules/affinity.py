"""Processes that may use one core only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict


def pinned_to_one_core(facts: Facts) -> Iterator[Verdict]:
    """One core in a mask, together with a sign that it is a training process or that more cores exist."""
    narrow = facts.hits("pinned_to_core")
    if not narrow:
        return
    zero_mask = any(re.search(r"\{0\}|list:\s*0\s*$|mask: 0*1\s*$", hit.text) for hit in narrow)
    wide = facts.hits("wide_affinity")
    said = facts.said(r"one core|single core|core 0|numpy|openmp|mkl|affinity|pinned|worker|cpu")
    weight = 0.92 if wide or said else 0.8 if zero_mask else 0.6
    yield verdict("process-pinned-to-one-core", weight, narrow, wide[:1])
