"""What a GPU server reports: Xid codes, metrics, known error texts; and what its links should carry."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from stoker.facts.reader import load


@dataclass(frozen=True)
class Xid:
    """One Xid code of the NVIDIA driver: a row of xid.csv.

    Attributes:
        also: Further codes of the same kind for sibling engines, to which the row applies too.
        severity: `by-text` where the line itself says whether it is fatal.
    """

    xid: int
    also: tuple[int, ...]
    name: str
    severity: Literal["info", "warning", "critical", "fatal", "by-text"]
    likely_cause: str
    action: str
    source: str


@dataclass(frozen=True)
class Metric:
    """One metric of a GPU and its names in the usual exporters: a row of gpu_metrics.csv."""

    metric: str
    group: Literal["key12", "beyond"]
    unit: str
    alert: str
    why: str
    dcgm_field_id: str
    dcgm_field: str
    dcgm_field_legacy: str
    dcgm_exporter_metric: str
    dcgm_exporter_default: Literal["yes", "no", "commented", ""]
    nvidia_gpu_exporter_metric: str
    nvml_call: str
    source: str


@dataclass(frozen=True)
class Incompatibility:
    """One known incompatibility: a row of known_incompat.csv.

    Attributes:
        quoted: `no` where `error_text` describes the symptom, `memory` where the text was not seen again.
    """

    id: str
    area: str
    error_text: str
    quoted: Literal["yes", "no", "memory"]
    where_seen: str
    cause: str
    fix: str
    detect_before_run: str
    source: str


@dataclass(frozen=True)
class Link:
    """One kind of link: a row of links.csv. Rates in GB/s (10^9 bytes), latencies in microseconds.

    Attributes:
        per: What the rates are counted for, such as a GPU or a port.
        measured_low_gb_s: Lowest rate seen in practice, by the measure named in `measured_as`.
        floor_gb_s: Below this a health check fails the machine.
    """

    kind: str
    link: str
    per: str
    one_way_gb_s: float | None
    both_ways_gb_s: float | None
    measured_low_gb_s: float | None
    measured_high_gb_s: float | None
    measured_as: str
    floor_gb_s: float | None
    latency_us: float | None
    latency_as: str
    source: str
    notes: str


@dataclass(frozen=True)
class RunVariable:
    """One environment variable that NCCL or torch reads: a row of run_variables.csv.

    Attributes:
        state: `source` where it is read but not documented.
        instead: What to set in its place; empty if there is nothing, or nothing is to be replaced.
    """

    variable: str
    reader: Literal["NCCL", "torch"]
    state: Literal["documented", "source", "deprecated", "removed"]
    instead: str
    source: str


@cache
def xids() -> dict[int, Xid]:
    """The row of each Xid code, codes of sibling engines included."""
    rows = load("xid.csv", Xid)
    return {code: row for row in rows for code in (row.xid, *row.also)}


def metrics() -> tuple[Metric, ...]:
    """All metrics, the most important first."""
    return load("gpu_metrics.csv", Metric)


def incompatibilities() -> tuple[Incompatibility, ...]:
    """All known incompatibilities."""
    return load("known_incompat.csv", Incompatibility)


def links() -> tuple[Link, ...]:
    """All links."""
    return load("links.csv", Link)


@cache
def run_variables() -> dict[str, RunVariable]:
    """The known variables of NCCL and torch's use of it, by name."""
    return {row.variable: row for row in load("run_variables.csv", RunVariable)}
