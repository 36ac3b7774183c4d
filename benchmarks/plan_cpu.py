"""The planner against this machine's CPU: predicted and measured peak of tensor memory, and time of a step.

Ten models, three sizes of the batch, with and without checkpointing, on one rank and on two over gloo with DDP and
FSDP2. Every case is really trained; the measured peak is what torch counts of its allocations. The prediction
traces the same model in CPU mode. Step times are predicted after `stoker plan calibrate` on this machine.

    python benchmarks/plan_cpu.py [--json] [--part memory|time|all] [--quick] [--only WORDS] [--markdown FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from common import Figure, machine, replace_tables, report
from plan_cpu_time import time_rows
from plan_cpu_train import Case, Ranks

from stoker.plan.allocator import add_up
from stoker.plan.layout import parse_layout
from stoker.plan.trace.run import Source, trace

HERE = Path(__file__).resolve().parent

SIZES = {
    "cnn": (2, 4, 8),
    "wide_cnn": (2, 4, 12),
    "transformer": (1, 2, 6),
    "lstm": (2, 8, 16),
    "recommender": (64, 256, 1024),
    "detector": (1, 2, 6),
    "vision": (2, 4, 12),
    "segmenter": (1, 2, 4),
    "speech": (2, 4, 12),
    "tabular": (32, 128, 1024),
}
"""Samples per rank of each model of `plan_models.py`."""

WHAT = {
    "cnn": "ResNet-18",
    "wide_cnn": "MobileNetV3-small",
    "transformer": "decoder, 4 layers",
    "lstm": "2 LSTM layers",
    "recommender": "8 embedding tables",
    "detector": "one-stage detector",
    "vision": "vision transformer",
    "segmenter": "U-Net",
    "speech": "dilated 1D convolutions",
    "tabular": "residual MLP",
}

Row = dict[str, Any]


def cases(quick: bool) -> Iterator[Case]:
    """The whole matrix; with `quick` only the middle size of each model."""
    for model, sizes in SIZES.items():
        for size in sizes[1:2] if quick else sizes:
            for layout in ("single", "ddp=2", "fsdp2=2"):
                for checkpointing in ("none", "full"):
                    yield Case(model, size, checkpointing, layout)


def predict(case: Case) -> Any:
    """Trace of one case in CPU mode."""
    target = f"{HERE / 'plan_models.py'}:{case.model}"
    changes = {"precision": "fp32", "checkpointing": case.checkpointing}
    source = Source("stoker.plan.workload:load_workload", {"target": target, "micro_batch": case.size}, changes)
    reply = trace(source, parse_layout(case.layout), None)
    if reply.failure:
        raise RuntimeError(f"{case}: {reply.failure.message}\n{reply.failure.detail}")
    return reply.traces[0]


def memory_rows(wanted: list[Case], *, quiet: bool) -> list[Row]:
    """Predicted and measured peak of every case, in MiB."""
    rows: list[Row] = []
    with Ranks() as ranks, ThreadPoolExecutor(1) as pool:
        planned = pool.map(lambda case: add_up(predict(case).memory).peak_allocated, wanted)
        measured = map(ranks.peak_bytes, wanted)
        for case, is_bytes, plan_bytes in zip(wanted, measured, planned, strict=True):
            sizes = {"measured_mib": is_bytes / 2**20, "predicted_mib": plan_bytes / 2**20}
            rows.append({**case._asdict(), **sizes, "error": plan_bytes / is_bytes - 1})
            if not quiet:
                print(_memory_line(rows[-1]), flush=True)
    return rows


def _memory_line(row: Row) -> str:
    name = f"{row['model']} {row['size']} {row['checkpointing']} {row['layout']}"
    return (
        f"{name:36} measured {row['measured_mib']:7.1f} MiB  predicted {row['predicted_mib']:7.1f}  {row['error']:+.2%}"
    )


def _time_line(row: Row) -> str:
    times = f"measured {row['measured_ms']:7.1f} ms  predicted {row['predicted_ms']:7.1f}"
    return f"{row['model']:14} {times}  {row['error']:+.0%}"


def figures(memory: list[Row], times: list[Row]) -> list[Figure]:
    """What the rows come to."""
    found: list[Figure] = []
    if memory:
        errors = [abs(row["error"]) for row in memory]
        share = sum(error <= 0.03 for error in errors) / len(errors)
        found += [
            Figure("CPU memory within 3 %", share, "fraction", 1.0),
            Figure("CPU memory worst error", max(errors), "fraction", 0.03, higher_is_better=False),
            Figure("CPU memory cases", float(len(errors)), "cases"),
        ]
    if times:
        errors = [abs(row["error"]) for row in times]
        median = statistics.median(errors)
        found += [
            Figure("CPU step time median error", median, "fraction", 0.2, higher_is_better=False),
            Figure("CPU step time worst error", max(errors), "fraction", higher_is_better=False),
        ]
    return found


def table(memory: list[Row], times: list[Row]) -> list[str]:
    """One row per model, for the documentation."""
    lines = [
        "| model | cases | memory: median error | worst | step measured | predicted | error |",
        "|---|---|---|---|---|---|---|",
    ]
    timed = {row["model"]: row for row in times}
    for model in dict.fromkeys(row["model"] for row in (*memory, *times)):
        errors = [row["error"] for row in memory if row["model"] == model]
        cells = [f"{model} ({WHAT[model]})", str(len(errors))]
        if errors:
            worst = max(errors, key=abs)
            cells += [f"{statistics.median(map(abs, errors)):.2%}", f"{worst:+.1%}"]
        else:
            cells += ["", ""]
        if row := timed.get(model):
            cells += [f"{row['measured_ms']:.1f} ms", f"{row['predicted_ms']:.1f} ms", f"{row['error']:+.0%}"]
        else:
            cells += ["", "", ""]
        lines.append("| " + " | ".join(cells).replace("%", " %") + " |")
    return lines


def main() -> None:
    """Run the parts asked for and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=("memory", "time", "all"), default="all")
    parser.add_argument("--quick", action="store_true", help="memory with one batch size per model")
    parser.add_argument("--only", default="", help="cases with this in their name, such as 'cnn' or 'full fsdp2'")
    parser.add_argument("--rows", type=Path, help="also write every row to this file as JSON")
    parser.add_argument("--markdown", type=Path, help="also write the table by model into this page, between its marks")
    parser.add_argument("--from-rows", type=Path, nargs="*", default=[], help="take rows from such files, run nothing")
    arguments = parser.parse_args()
    memory: list[Row] = []
    times: list[Row] = []
    for file in arguments.from_rows:
        kept = json.loads(file.read_text())
        memory, times = memory or kept["memory"], times or kept["times"]
    if not arguments.from_rows:
        wanted = [case for case in cases(arguments.quick) if arguments.only in " ".join(map(str, case))]
        if arguments.part != "time":
            memory = memory_rows(wanted, quiet=arguments.json)
        if arguments.part != "memory":
            middle = {case.model: Case(case.model, SIZES[case.model][1], "none", "single") for case in wanted}
            times = time_rows({case: predict(case) for case in middle.values()})
            if not arguments.json:
                print("\n".join(map(_time_line, times)))
    if arguments.rows:
        arguments.rows.write_text(json.dumps({"memory": memory, "times": times}, indent=1))
    if arguments.markdown:
        replace_tables(arguments.markdown, {"planned and measured on a CPU": table(memory, times)})
    report(figures(memory, times), machine("torch"), as_json=arguments.json)


if __name__ == "__main__":
    main()
