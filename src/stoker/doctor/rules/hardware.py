"""Temperatures, NVLinks and error counters of nvidia-smi."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

LOWERED_BY = 20
"""A highest operating temperature so many degrees below the slowdown point was lowered: cards keep 12."""

LOWERED_BELOW = 75
"""No card that NVIDIA sells has a highest operating temperature below this, in degrees Celsius."""


def judge_temperatures(facts: Facts) -> Iterator[Verdict]:
    """A limit that lies far below the card's own."""
    slowdown = facts.hits("slowdown_temp")
    for limit in facts.hits("max_operating_temp", "target_temp"):
        value = int(limit["value"])
        own = int(slowdown[0]["value"]) if slowdown else None
        lowered = value < LOWERED_BELOW and (own is None or own - value >= LOWERED_BY)
        if lowered:
            active = facts.hits("thermal_active")
            weight = 0.93 if active or own is not None else 0.7
            yield verdict("thermal-limit-lowered-by-platform", weight, [limit], slowdown[:1], active[:1])
            return
    if facts.has("thermal_active") and facts.said(
        r"cool|\b[3-6]\d ?°?c\b|low temperature|while (it is )?(still )?cold"
    ):
        yield verdict("thermal-limit-lowered-by-platform", 0.82, facts.hits("thermal_active"), context=facts.context)


def judge_nvlinks(facts: Facts) -> Iterator[Verdict]:
    """Some links of a GPU down is a fault; all down is a card without a bridge, unless it is SXM."""
    headers = facts.hits("smi_gpu_header")
    for start, rows in _links_by_header(headers, facts.hits("nvlink_row")).items():
        numbers = [int(row["link"]) for row in rows]
        if numbers != sorted(set(numbers)):
            continue  # pieces of several tables
        down = [row for row in rows if row["state"] == "<inactive>"]
        name = next((header["name"] for header in headers if header.line == start), "")
        if down and len(down) < len(rows):
            yield verdict("nvlink-links-inactive", 0.92, [header for header in headers if header.line == start], down)
            return
        if down and re.search(r"SXM|HGX|GB\d00", name + facts.context):
            yield verdict("nvlink-links-inactive", 0.75, down)
            return


def _links_by_header(headers: list[Hit], rows: list[Hit]) -> dict[int, list[Hit]]:
    """The links of each GPU, which follow its line without a gap, by the number of that line."""
    starts = {header.line for header in headers}
    links: dict[int, list[Hit]] = {}
    start, previous = 0, 0
    for row in rows:
        if row.line - 1 in starts:
            start = row.line - 1
        elif row.line != previous + 1 and previous:
            start = -row.line
        links.setdefault(start, []).append(row)
        previous = row.line
    return links


def judge_ecc_column(facts: Facts) -> Iterator[Verdict]:
    """The last column of nvidia-smi's first row counts uncorrectable errors since the driver was loaded."""
    counted = [row for row in facts.hits("smi_ecc") if row["ecc"].isdigit() and int(row["ecc"]) > 0]
    if counted:
        yield verdict("uncorrectable-ecc-error", 0.85, counted)
