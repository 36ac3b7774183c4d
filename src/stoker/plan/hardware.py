"""What the planner needs to know of GPUs and links: the one place where it takes hardware figures from.

Datasheet figures come from `stoker.facts`. The planner's own tables add what only it asks: multiprocessors,
the bytes that are usable, the class of cards that reach the same share of their peaks, the link between ranks
as collectives see it, and variants that are no model of their own. What is really reached of a datasheet figure
is in `reached.csv` for matrix products and in `efficiency.csv` for the rest, with a source in each row, and can be
replaced by a calibration profile.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from stoker.errors import UserError
from stoker.facts import gpus as facts
from stoker.facts.names import Named, did_you_mean, listed, meant
from stoker.plan.measured import Measured
from stoker.plan.reached import FORMATS, PEAKS, Fraction, class_fraction, fraction, peak_of, table

GIB = 1 << 30
LinkKind = Literal["node", "network"]


@dataclass(frozen=True)
class Gpu:
    """One GPU model.

    Attributes:
        name: As in the table.
        architecture: Class of GPUs that share efficiencies.
        capability: CUDA compute capability.
        sms: Streaming multiprocessors; None if unknown.
        memory_gib: What PyTorch can use of its memory, before its own context.
        bandwidth: Bytes per second of its memory.
        flops: Dense peak by type, in floating point operations per second.
        tdp_watts: Board power; None if unknown.
        fabric: Link between GPUs of a node.
        efficiency: What is reached of each peak.
        source: Where the figures come from.
        measured: Operators timed one by one on this very device; it prices them instead of the peaks.
        pcie_gen: Generation of the bus; None if unknown.
    """

    name: str
    architecture: str
    capability: tuple[int, int]
    sms: int | None
    memory_gib: float
    bandwidth: float
    flops: Mapping[str, float]
    tdp_watts: float | None
    fabric: str
    efficiency: Mapping[str, Fraction] = field(default_factory=dict[str, Fraction])
    source: str = ""
    measured: Measured | None = field(default=None, compare=False)
    pcie_gen: int | None = None

    @property
    def memory_bytes(self) -> int:
        """Usable bytes."""
        return int(self.memory_gib * GIB)

    @property
    def on_cpu(self) -> bool:
        """Whether it is a CPU in a GPU's terms: see `stoker.plan.cpu`."""
        return self.architecture == "cpu"

    def reached(self, quantity: str) -> Fraction:
        """What is reached of a peak.

        Raises:
            KeyError: If the table has no such quantity.
        """
        return self.efficiency[quantity]

    def with_efficiency(self, measured: Mapping[str, Fraction]) -> Gpu:
        """The same with measured fractions in place of those of the table."""
        return replace(self, efficiency={**self.efficiency, **measured})


@dataclass(frozen=True)
class Link:
    """A way between ranks.

    Attributes:
        name: As in the table.
        bandwidth: Bytes per second per GPU that collectives reach on large messages (bus bandwidth).
        all_reduce_bandwidth: The same for all-reduce with more than four ranks, where the switch can add.
        latency: Seconds per hop.
        half_bytes: Message size at which half of the bandwidth is reached.
        source: Where the figures come from.
    """

    name: str
    bandwidth: float
    all_reduce_bandwidth: float
    latency: float
    half_bytes: float
    source: str


@functools.cache
def gpu_rows() -> tuple[Gpu, ...]:
    """Every GPU of the table."""
    return tuple(_gpu(row) for row in table("gpus"))


@functools.cache
def find_gpu(name: str) -> Gpu:
    """The GPU that a name means; where it can be several variants of one model, SXM and the shortest name win.

    >>> find_gpu("a100 80gb sxm").name
    'A100 SXM4 80GB'

    Raises:
        UserError: If no GPU of the table is meant (with the nearest names), or different ones are (with theirs).
    """
    rows = {gpu.name: gpu for gpu in gpu_rows()}
    known = facts.names()
    found = [rows[one] for one in meant(name, {row: known.get(row, Named((row,))) for row in rows})]
    if len({gpu.capability for gpu in found}) > 1:
        raise UserError(f"{name!r} can be {listed(gpu.name for gpu in found)}: name one of them")
    if not found:
        nearest = did_you_mean(name, rows) or ": write for example H100 SXM, A100 80GB or RTX 4090"
        raise UserError(f"the planner knows no GPU {name!r}{nearest}")
    return min(found, key=lambda gpu: ("SXM" not in gpu.name, len(gpu.name), gpu.name))


def _gpu(row: dict[str, str]) -> Gpu:
    """One row of the planner's table, with the figures that `stoker.facts` has of the model."""
    known = facts.by_model()[_of(row)]

    def figure(column: str, fact: float | None) -> float | None:
        return float(row[column]) if row[column] else fact

    nominal = figure("memory_gb", known.memory_gb) or 0.0
    rates = {
        "float32": known.fp32_tflops,
        "tf32": known.tf32_tflops,
        "float16": figure("fp16_tflops", known.fp16_tflops),
        "bfloat16": known.bf16_tflops,
        "float8": known.fp8_tflops,
    }
    watts = figure("tdp_w", known.board_power_w)
    flops = _flops(row, rates)
    return Gpu(
        name=row["name"],
        architecture=row["class"],
        capability=_capability(known.capability),
        sms=int(row["sms"]) if row["sms"] else None,
        memory_gib=float(row["usable_gib"] or nominal * overhead("usable_of_nominal")),
        bandwidth=(figure("bandwidth_gbs", known.memory_bandwidth_gb_s) or 0.0) * 1e9,
        flops=flops,
        tdp_watts=watts,
        fabric=row["fabric"],
        efficiency={**_efficiencies(row["class"]), **_products(row, flops)},
        source=f"{known.source} ; {row['source']}" if row["variant_of"] else known.source,
        pcie_gen=known.pcie_gen,
    )


def _capability(text: str) -> tuple[int, int]:
    """Compute capability as two numbers; of AMD's `gfx942` the generation and the step, 9 and 4."""
    if text.startswith("gfx"):
        return int(text[3:-2]), int(text[-2], 16)
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _flops(row: Mapping[str, str], rates: Mapping[str, float | None]) -> dict[str, float]:
    """Dense peaks of a card, in FLOP/s; the best rate that was measured stands in for one that no data sheet gives."""
    flops = {kind: rate * 1e12 for kind, rate in rates.items() if rate}
    for kind, peaks in PEAKS.items():
        best = peak_of(_of(row), kind)
        if best is not None and not any(name in flops for name in peaks):
            flops |= dict.fromkeys(peaks, best)
    return flops


def _of(row: Mapping[str, str]) -> str:
    return row["variant_of"] or row["name"]


def _products(row: Mapping[str, str], flops: Mapping[str, float]) -> dict[str, Fraction]:
    """What matrix products reach on a card, by quantity, where it or another of its class was measured."""
    name, found = _of(row), dict[str, Fraction]()
    for kind, quantity in FORMATS.items():
        peak = next((flops[one] for one in PEAKS[kind] if one in flops), None)
        if peak is None:
            continue
        own = fraction(name, kind, peak)
        if own is None and kind == "tf32":  # the same units at half the rate
            own = found.get("gemm")
        own = own or class_fraction(kind, _class_peaks(row["class"], kind))
        if own is not None:
            found[quantity] = own
    return found


@functools.cache
def _class_peaks(architecture: str, kind: str) -> Mapping[str, float]:
    """Peak of a format of every card of a class, in FLOP/s, where a data sheet gives it."""
    columns = {"bfloat16": "bf16_tflops", "float16": "fp16_tflops", "tf32": "tf32_tflops", "float32": "fp32_tflops",
               "float8": "fp8_tflops"}  # fmt: skip
    peaks: dict[str, float] = {}
    for row in table("gpus"):
        known = facts.by_model()[_of(row)]
        rate = next((r for name in PEAKS[kind] if (r := getattr(known, columns[name]))), None)
        if row["class"] == architecture and not row["variant_of"] and rate:
            peaks[row["name"]] = rate * 1e12
    return peaks


@functools.cache
def _efficiencies(architecture: str) -> dict[str, Fraction]:
    found: dict[str, Fraction] = {}
    for wanted in ("default", architecture):
        for row in table("efficiency"):
            if row["class"] == wanted:
                value, low, high = float(row["value"]), float(row["low"]), float(row["high"])
                found[row["quantity"]] = Fraction(value, low, high, row["source"])
    return found


@functools.cache
def find_link(name: str, kind: LinkKind | None = None) -> Link:
    """The link of that name.

    Args:
        name: As in the table.
        kind: Where it must be: between the GPUs of a `node`, or the `network` between nodes; None for either.

    Raises:
        UserError: If the table has no such link there.
    """
    rows = {row["name"]: row for row in table("links") if kind in (None, row["kind"])}
    row = rows.get(name.lower())
    if row is None:
        where = {"node": " between the GPUs of a node", "network": " between nodes"}[kind] if kind else ""
        raise UserError(f"no link {name!r}{where} is in the table: write one of {', '.join(sorted(rows))}")
    return Link(
        name=row["name"],
        bandwidth=float(row["gbs"]) * 1e9,
        all_reduce_bandwidth=float(row["gbs_all_reduce"]) * 1e9,
        latency=float(row["latency_us"]) * 1e-6,
        half_bytes=float(row["half_mib"]) * (1 << 20),
        source=row["source"],
    )


@functools.cache
def overhead(name: str) -> float:
    """A constant of the overheads table."""
    return {row["name"]: float(row["value"]) for row in table("overheads")}[name]
