"""Compares plans with the rows of the validation table: one row, groups of rows, and the figures of all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from common import Figure
from plan_rows import Case, Row

from stoker.plan.hardware import GIB
from stoker.plan.memory import MemoryPlan
from stoker.plan.speed import SpeedPlan

MEMORY_WITHIN = 0.05
THROUGHPUT_WITHIN = 0.25
SCALING_WITHIN = 5.0
"""Points of scaling efficiency."""
NODE = 8
"""GPUs of one node."""
CONTEXT_THERE = 1343 / 1024
"""GiB that the source of the rows of whole devices says the CUDA context takes (Hugging Face, V100)."""


@dataclass(frozen=True)
class Scored:
    """A planned row beside what was published.

    Attributes:
        row: As published.
        case: As planned.
        verdict: Of the memory plan.
        reserved_gib: Planned, in GiB.
        memory_error: Planned over published, less one; None where nothing was published, or something else.
        ran: Whether all that is known of the memory is that it was enough.
        throughput: Planned, in the unit of the row; None where the row has none.
        ratio: Planned rate over published rate.
    """

    row: Row
    case: Case
    verdict: str
    reserved_gib: float
    memory_error: float | None
    ran: bool
    throughput: float | None
    ratio: float | None

    @property
    def gpus(self) -> int:
        """GPUs that the row was measured on."""
        return int(self.row["n_gpus"])

    @property
    def one_node_ratio(self) -> float | None:
        """The ratio where no network took part."""
        return self.ratio if self.gpus <= NODE else None

    @property
    def missed(self) -> bool:
        """Whether memory, verdict or rate are too far off."""
        off = self.memory_error is not None and abs(self.memory_error) > MEMORY_WITHIN
        slow = self.one_node_ratio is not None and not near(self.one_node_ratio)
        return off or slow or (self.ran and self.verdict == "does not fit")

    def __str__(self) -> str:
        parts = [f"{self.verdict:12} reserved {self.reserved_gib:6.1f}"]
        if self.memory_error is not None:
            parts.append(f"published {self.row['peak_mem_gib']} ({self.memory_error:+.1%})")
        if self.ratio is not None:
            parts.append(f"throughput {self.throughput:.4g} published {self.row['throughput']} (x{self.ratio:.2f})")
        return "  ".join(parts)


def near(ratio: float) -> bool:
    """Whether a rate is near enough to the published one."""
    return abs(ratio - 1) <= THROUGHPUT_WITHIN


def score(row: Row, case: Case, memory: MemoryPlan, speed: SpeedPlan) -> Scored:
    """Compare one row."""
    published, reserved = row["peak_mem_gib"].strip(), memory.reserved / GIB
    error = None
    if re.fullmatch(r"[\d.]+", published) and "forward memory" not in row["notes"]:  # of those the batch is not certain
        error = (reserved + (CONTEXT_THERE if case.memory == "device" else 0)) / float(published) - 1
    rate = _in_unit(row["unit"].strip(), speed) if row["throughput"].strip() else None
    ratio = None
    if rate:
        ratio = rate / float(row["throughput"])
        ratio = 1 / ratio if "iteration" in row["unit"] else ratio
    return Scored(row, case, memory.verdict, reserved, error, "ran" in published, rate, ratio)


def _in_unit(unit: str, speed: SpeedPlan) -> float | None:
    if unit == "tokens/s/GPU":
        return speed.tokens_per_second_per_gpu.expected if speed.tokens_per_second_per_gpu else None
    if unit in ("images/s", "samples/s", "sequences/s"):
        return speed.samples_per_second.expected
    return {"s/iteration": 1.0, "ms/iteration": 1e3}.get(unit, 0.0) * speed.step_seconds.expected or None


def scaling(scored: Iterable[Scored]) -> list[tuple[Scored, float]]:
    """Rows on more than one node, each with planned less published scaling efficiency in points.

    Efficiency is the rate per GPU over that of the row with fewest GPUs, among rows that differ only in their number.
    """
    groups: dict[tuple[object, ...], list[Scored]] = {}
    for one in scored:
        if one.ratio is not None and "iteration" not in one.row["unit"]:
            groups.setdefault(_alike(one), []).append(one)
    found: list[tuple[Scored, float]] = []
    for members in groups.values():
        base, *others = sorted(members, key=lambda one: one.gpus)
        for other in others:
            if other.gpus > max(NODE, base.gpus):
                planned, measured = (rate(other) / rate(base) for rate in (_planned_per_gpu, _measured_per_gpu))
                found.append((other, 100 * (planned - measured)))
    return found


def _alike(one: Scored) -> tuple[object, ...]:
    row, changes = one.row, one.case.changes
    kind = re.sub(r"\d+(?=;|$|\+)", "", row["parallelism"].split(";")[0])
    fields = ("source", "model", "hardware", "precision", "ac", "seq_or_res")
    return (*(row[name] for name in fields), kind, one.case.micro_batch, changes.get("accumulation", 1))


def _per_gpu(rate: float, one: Scored) -> float:
    return rate if "GPU" in one.row["unit"] else rate / one.gpus


def _planned_per_gpu(one: Scored) -> float:
    assert one.throughput is not None
    return _per_gpu(one.throughput, one)


def _measured_per_gpu(one: Scored) -> float:
    return _per_gpu(float(one.row["throughput"]), one)


def figures(scored: Sequence[Scored], total: int) -> list[Figure]:
    """The figures by which the planner is judged."""
    memory = [abs(one.memory_error) <= MEMORY_WITHIN for one in scored if one.memory_error is not None]
    held = [one for one in scored if one.memory_error is not None or one.ran]
    ran = [one.verdict != "does not fit" for one in scored if one.ran]
    ratios = [one.one_node_ratio for one in scored if one.one_node_ratio is not None]
    points = [abs(off) <= SCALING_WITHIN for _, off in scaling(scored)]
    false = sum(one.verdict == "does not fit" for one in held)
    return [
        Figure("memory within 5 %", _share(memory), f"of {len(memory)} rows", 0.8),
        Figure("false does-not-fit", false, f"of {len(held)} rows", 0, higher_is_better=False),
        Figure("ran rows fit", _share(ran), f"of {len(ran)} rows", 1.0),
        Figure("throughput within 25 %", _share([near(one) for one in ratios]), f"of {len(ratios)} rows", 0.8),
        Figure("throughput, median of planned over published", median(ratios) if ratios else None, ""),
        Figure("scaling within 5 points", _share(points), f"of {len(points)} rows", 0.8),
        Figure("rows in scope", len(scored), f"of {total} rows"),
    ]


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None


def table(scored: Sequence[Scored]) -> list[str]:
    """A table in Markdown: how many rows of each group are near enough."""
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(_group(one.row), []).append(one)
    heads = (
        "rows of", "in scope", "memory within 5 %", "ran rows fit", "throughput within 25 %, one node", "median",
        "scaling within 5 points",
    )  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    off = {id(one): abs(points) <= SCALING_WITHIN for one, points in scaling(scored)}
    for name, members in sorted(groups.items()):
        ratios = [one.one_node_ratio for one in members if one.one_node_ratio is not None]
        cells = [
            _hits(members, lambda one: None if one.memory_error is None else abs(one.memory_error) <= MEMORY_WITHIN),
            _hits(members, lambda one: one.verdict != "does not fit" if one.ran else None),
            _hits(members, lambda one: None if one.one_node_ratio is None else near(one.one_node_ratio)),
            f"{median(ratios):.2f}" if ratios else "",
            _hits(members, lambda one: off.get(id(one))),
        ]
        lines.append(f"| {name} | {len(members)} | {' | '.join(cells)} |")
    return lines


def measured_memory(scored: Iterable[Scored]) -> list[str]:
    """A table in Markdown of every row whose memory was measured."""
    lines = ["| model | GPUs | precision | published GiB | error |", "|---|---|---|---|---|"]
    for one in scored:
        if one.memory_error is not None:
            row = one.row
            named = f"{row['model']} on {row['hardware']} | {row['n_gpus']} | {row['precision']}"
            lines.append(f"| {named} | {row['peak_mem_gib']} | {100 * one.memory_error:+.1f} % |")
    return lines


def _hits(members: Iterable[Scored], of: Callable[[Scored], bool | None]) -> str:
    known = [hit for hit in map(of, members) if hit is not None]
    return f"{sum(known)} of {len(known)}" if known else ""


def _group(row: Row) -> str:
    """Rows of one source and model family."""
    family = re.split(r"[-_ ]", row["model"].removeprefix("torchvision/"))[0]
    named = {"lambdal": "Lambda", "mosaicml": "llm-foundry", "pytorch": "torchtitan", "torchtitan": "torchtitan",
             "NVIDIA": "DeepLearningExamples", "huggingface": "Hugging Face"}  # fmt: skip
    if "pytorch-image-models" in row["source"]:
        return "timm, RTX 3090"
    origin = next((name for start, name in named.items() if row["source"].startswith(start)), row["source"].split()[0])
    return f"{origin}, {family}"
