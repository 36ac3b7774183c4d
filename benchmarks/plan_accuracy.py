"""The planner against published memory and throughput.

    python benchmarks/plan_accuracy.py [CSV] [--json] [--match TEXT] [--cache FOLDER] [--markdown FILE]

Prints for every row whether it is in scope, why not, and what was predicted and published; then a table by
group of rows, the rows that missed, and the figures. Rows that ask for the same trace share it.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from common import machine, replace_tables, report  # noqa: E402
from plan_rows import Case, OutOfScopeError, Row, read_case  # noqa: E402
from plan_scores import Scored, figures, measured_memory, score, table  # noqa: E402

from stoker.errors import UserError  # noqa: E402
from stoker.plan.hardware import Fraction, find_gpu  # noqa: E402
from stoker.plan.layout import parse_layout  # noqa: E402
from stoker.plan.memory import MemoryPlan, plan_memory  # noqa: E402
from stoker.plan.speed import Conditions, SpeedPlan, plan_speed  # noqa: E402
from stoker.plan.trace.process import stop_all  # noqa: E402
from stoker.plan.trace.run import Source  # noqa: E402
from stoker.plan.workload import Workload  # noqa: E402


def plan(case: Case, cache: Path) -> tuple[MemoryPlan, SpeedPlan]:
    """Memory and speed of one case.

    Raises:
        OutOfScopeError: It cannot be traced.
    """
    if case.config is not None:
        source = Source(
            "plan_accuracy:from_config",
            {"config": json.dumps(case.config), "micro_batch": case.micro_batch, "sequence": case.size},
            case.changes,
        )
    else:
        make = {"torchvision": "stoker.plan.models.vision:vision_workload", "timm": "plan_accuracy:from_timm"}
        arguments = {"name": case.target, "micro_batch": case.micro_batch, "image_size": case.size}
        source = Source(make[case.library], arguments, case.changes)
    gpu, layout = find_gpu(case.gpu), parse_layout(case.layout)
    slower = {
        name: Fraction(f.value * factor, f.low * factor, f.high * factor, f.source)
        for name, factor in case.scaled.items()
        for f in [gpu.reached(name)]
    }
    gpu = gpu.with_efficiency(slower)
    memory, reply = plan_memory(source, layout, gpu, compiled=case.compiled, cache=cache)
    if reply.failure is not None:
        raise OutOfScopeError(f"not traced: {reply.failure.message}")
    link = None if case.peers else f"pcie{gpu.pcie_gen}-nop2p"
    conditions = Conditions(network=case.network, link=link, compiled=case.compiled)
    return memory, plan_speed(reply.traces, layout, gpu, conditions)


def from_config(config: str, micro_batch: int, sequence: int) -> Workload:
    """Workload of a config given as text (called in the process that traces)."""
    from stoker.plan.models.config import parse_config
    from stoker.plan.models.language import language_workload

    return language_workload(parse_config(json.loads(config), "row"), micro_batch=micro_batch, sequence=sequence)


def from_timm(name: str, micro_batch: int, image_size: int) -> Workload:
    """Workload of a model of timm, with attention as torch 1.12 had it: not fused."""
    import timm

    from stoker.plan.models.vision import image_workload

    timm.layers.set_fused_attn(enable=False)
    return image_workload(name, lambda: timm.create_model(name), micro_batch=micro_batch, image_size=image_size)


def main() -> None:
    """Plan every row and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="?", type=Path, default=HERE / "data" / "plan_validation.csv")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--match", default="", help="only rows whose source or model contains this")
    parser.add_argument("--cache", type=Path, help="folder in which traces are kept for the next run")
    parser.add_argument("--markdown", type=Path, help="also write the tables into this page, between their marks")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    rows = [row for row in csv.DictReader(options.csv.open(encoding="utf-8")) if _matches(row, options.match.lower())]
    with tempfile.TemporaryDirectory() as folder:
        scored, out = plan_all(rows, options.cache or Path(folder), quiet=options.json)
    if options.markdown is not None:
        replace_tables(
            options.markdown,
            {"published rows by group": table(scored), "published memory": measured_memory(scored)},
        )
    if not options.json:
        missed = [f"missed: {_name(one.row)}  {one}" for one in scored if one.missed]
        print("", *table(scored), "", *missed, "", sep="\n")
    stop_all()  # so that the time of the processes that traced is counted
    about = machine("stoker", "torch") | {"cpu_seconds": round(seconds_used())}
    report(figures(scored, len(rows)), about, as_json=options.json, rows=[*map(_as_json, scored), *out])


def plan_all(rows: list[Row], cache: Path, *, quiet: bool) -> tuple[list[Scored], list[dict[str, Any]]]:
    """Plan the rows that are in scope; the others with the reason why they are not."""
    scored: list[Scored] = []
    out: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        try:
            case = read_case(row)
            scored.append(score(row, case, *plan(case, cache)))
            said = str(scored[-1])
        except (OutOfScopeError, UserError) as reason:
            out.append(_identity(row) | {"in_scope": False, "reason": str(reason)})
            said = f"out of scope: {reason}"
        if not quiet:
            print(f"{number:4} {_name(row)} {said}", flush=True)
    return scored, out


def _matches(row: Row, text: str) -> bool:
    return text in f"{row['source']} {row['model']} {row['hardware']} {row['precision']}".lower()


def _name(row: Row) -> str:
    return f"{row['model'][:24]:24} {row['hardware'][:22]:22} {row['n_gpus']:>5} {row['precision'][:10]:10}"


def _identity(row: Row) -> dict[str, Any]:
    return {name: row[name] for name in ("source", "model", "hardware", "n_gpus")}


def _as_json(one: Scored) -> dict[str, Any]:
    return _identity(one.row) | {
        "in_scope": True,
        "verdict": one.verdict,
        "reserved_gib": one.reserved_gib,
        "memory_error": one.memory_error,
        "throughput": one.throughput,
        "throughput_ratio": one.ratio,
    }


def seconds_used() -> float:
    """CPU seconds of this process and of those that traced and have ended; traces that were kept cost none."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


if __name__ == "__main__":
    main()
