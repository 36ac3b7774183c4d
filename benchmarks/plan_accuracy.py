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
import platform
import re
import resource
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from plan_rows import Case, OutOfScopeError, read_case  # noqa: E402

from stoker.errors import UserError  # noqa: E402
from stoker.plan.hardware import GIB, Fraction, find_gpu  # noqa: E402
from stoker.plan.layout import parse_layout  # noqa: E402
from stoker.plan.memory import plan_memory  # noqa: E402
from stoker.plan.speed import Conditions, plan_speed  # noqa: E402
from stoker.plan.trace.process import stop_all  # noqa: E402
from stoker.plan.trace.run import Source  # noqa: E402


def plan(case: Case, cache: Path | None):
    """Memory and speed of one case."""
    if case.config is not None:
        source = Source(
            "plan_accuracy:from_config",
            {"config": json.dumps(case.config), "micro_batch": case.micro_batch, "sequence": case.size},
            case.changes,
        )
    else:
        arguments = {"target": case.target, "micro_batch": case.micro_batch, "image_size": case.size}
        source = Source("stoker.plan.workload:load_workload", arguments, case.changes)
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
    conditions = Conditions(network=case.network, compiled=case.compiled)
    return memory, plan_speed(reply.traces, layout, gpu, conditions)


def from_config(config: str, micro_batch: int, sequence: int):
    """Workload of a config given as text (called in the process that traces)."""
    from stoker.plan.models.config import parse_config
    from stoker.plan.models.language import language_workload

    return language_workload(parse_config(json.loads(config), "row"), micro_batch=micro_batch, sequence=sequence)


def predicted_throughput(row, speed) -> float | None:
    """What the row's unit asks for."""
    unit = row["unit"].strip()
    if unit == "tokens/s/GPU":
        return speed.tokens_per_second_per_gpu.expected if speed.tokens_per_second_per_gpu else None
    if unit in ("images/s", "samples/s", "sequences/s"):
        return speed.samples_per_second.expected
    if unit == "s/iteration":
        return speed.step_seconds.expected
    if unit == "ms/iteration":
        return speed.step_seconds.expected * 1e3
    return None


def judge_row(row, case, memory, speed) -> dict:
    """Compare one row."""
    result = {
        "verdict": memory.verdict,
        "reserved_gib": memory.reserved / GIB,
        "device_gib": memory.device_bytes / GIB,
    }
    text = row["peak_mem_gib"].strip()
    if re.fullmatch(r"[\d.]+", text):
        predicted = memory.reserved / GIB
        if case.memory == "device":
            predicted += 1343 / 1024
        if "forward memory" in row["notes"]:
            result["memory_out"] = "forward memory only: batch not certain"
        else:
            result["memory_error"] = predicted / float(text) - 1
    elif "ran" in text:
        result["ran"] = memory.verdict
    if row["throughput"].strip():
        value = predicted_throughput(row, speed)
        if value:
            result["throughput"] = value
            ratio = value / float(row["throughput"])
            result["throughput_ratio"] = 1 / ratio if "iteration" in row["unit"] else ratio
    return result


def scaling(rows: list[dict]) -> list[float]:
    """Differences of scaling efficiency, in points, between rows that differ only in the number of GPUs."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        if "throughput_ratio" in row["result"] and "iteration" not in row["row"]["unit"]:
            r = row["row"]
            per_gpu = 1 if "GPU" in r["unit"] else int(r["n_gpus"])
            key = (
                r["source"],
                r["model"],
                r["hardware"],
                r["precision"],
                re.sub(r"\d+(?=;|$|\+)", "", r["parallelism"].split(";")[0]),
                r["ac"],
                r["seq_or_res"],
                row["case"].micro_batch,
                row["case"].changes.get("accumulation", 1),
            )
            measured = float(r["throughput"]) / per_gpu
            groups.setdefault(key, []).append(
                {
                    "n": int(r["n_gpus"]),
                    "measured": measured,
                    "predicted": row["result"]["throughput"] / per_gpu,
                }
            )
    errors = []
    for members in groups.values():
        members.sort(key=lambda m: m["n"])
        base = members[0]
        for other in members[1:]:
            if other["n"] > 8 and other["n"] > base["n"]:
                predicted = other["predicted"] / base["predicted"]
                errors.append(100 * (predicted - other["measured"] / base["measured"]))
    return errors


def figures(rows: list[dict], total: int) -> list[dict]:
    """The figures by which the planner is judged."""
    results = [row["result"] for row in rows]
    memory = [abs(r["memory_error"]) for r in results if "memory_error" in r]
    ran = [r["ran"] for r in results if "ran" in r]
    fitted = [row for row in rows if "memory_error" in row["result"]]
    false = [row for row in fitted if row["result"]["verdict"] == "does not fit"]
    single = [
        row["result"]["throughput_ratio"]
        for row in rows
        if "throughput_ratio" in row["result"] and int(row["row"]["n_gpus"]) <= 8
    ]
    points = scaling(rows)

    def share(hits: int, of: int) -> float | None:
        return hits / of if of else None

    def figure(name: str, value: float | None, unit: str, goal: float, higher: bool, count: int) -> dict:
        return {
            "name": name,
            "value": value,
            "unit": unit,
            "goal": goal,
            "higher_is_better": higher,
            "rows": count,
        }

    return [
        figure(
            "memory within 5 %", share(sum(e <= 0.05 for e in memory), len(memory)), "fraction", 0.8, True, len(memory)
        ),
        figure(
            "false does-not-fit",
            len(false) + sum(v == "does not fit" for v in ran),
            "rows",
            0,
            False,
            len(fitted) + len(ran),
        ),
        figure("ran rows fit", share(sum(v != "does not fit" for v in ran), len(ran)), "fraction", 1.0, True, len(ran)),
        figure(
            "throughput within 25 %",
            share(sum(0.75 <= r <= 1.25 for r in single), len(single)),
            "fraction",
            0.8,
            True,
            len(single),
        ),
        figure("throughput median ratio", median(single) if single else None, "ratio", 1.0, True, len(single)),
        figure(
            "scaling within 5 points",
            share(sum(abs(p) <= 5 for p in points), len(points)),
            "fraction",
            0.8,
            True,
            len(points),
        ),
        figure("rows in scope", len(rows), "rows", total, True, total),
    ]


def main() -> None:
    """Plan every row and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", nargs="?", type=Path, default=HERE / "data" / "plan_validation.csv")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--match", default="", help="only rows whose source or model contains this")
    parser.add_argument("--cache", type=Path, default=None, help="folder in which traces are kept for the next run")
    parser.add_argument("--markdown", type=Path, default=None, help="write the table by group to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(arguments, arguments.cache or Path(folder))


def run(arguments: argparse.Namespace, cache: Path) -> None:
    """Plan the rows that were asked for."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    rows = list(csv.DictReader(arguments.csv.open(encoding="utf-8")))
    rows = [
        row
        for row in rows
        if arguments.match.lower() in f"{row['source']} {row['model']} {row['hardware']} {row['precision']}".lower()
    ]
    done, out = [], []
    for number, row in enumerate(rows):
        name = (
            f"{number:4} {row['model'][:24]:24} {row['hardware'][:22]:22} {row['n_gpus']:>5} {row['precision'][:10]:10}"
        )
        try:
            case = read_case(row)
            memory, speed = plan(case, cache)
            result = judge_row(row, case, memory, speed)
        except (OutOfScopeError, UserError) as reason:
            out.append({"row": row, "reason": str(reason)})
            if not arguments.json:
                print(f"{name} out of scope: {reason}", flush=True)
            continue
        done.append({"row": row, "case": case, "result": result})
        if not arguments.json:
            print(name, describe(row, result), flush=True)
    found = figures(done, len(rows))
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join(table_by_group(done)) + "\n", encoding="utf-8")
    if arguments.json:
        machine = {"cpu": platform.machine(), "cores": os.cpu_count(), "python": platform.python_version()}
        details = [
            {
                **{k: d["row"][k] for k in ("source", "model", "hardware", "n_gpus")},
                **d["result"],
                "in_scope": True,
            }
            for d in done
        ]
        details += [
            {
                **{k: o["row"][k] for k in ("source", "model", "hardware", "n_gpus")},
                "in_scope": False,
                "reason": o["reason"],
            }
            for o in out
        ]
        stop_all()  # so that the time of the processes that traced is counted
        print(
            json.dumps({"machine": machine, "cpu_seconds": seconds_used(), "figures": found, "rows": details}, indent=1)
        )
    else:
        print("", *table_by_group(done), "", *(f"missed: {line}" for line in misses(done)), "", sep="\n")
        for figure in found:
            value = figure["value"]
            print(
                f"{figure['name']:28} {value if value is None else round(value, 3)} "
                f"(goal {figure['goal']}, {figure['rows']} rows)"
            )
        stop_all()
        print(f"{seconds_used():.0f} CPU seconds; traces found in --cache are not in it")


def seconds_used() -> float:
    """CPU seconds of this process and of those that traced and have ended."""
    uses = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


def group_of(row: dict) -> str:
    """Rows of one source and model family."""
    family = re.split(r"[-_ ]", row["model"].removeprefix("torchvision/"))[0]
    named = {"lambdal": "Lambda", "mosaicml": "llm-foundry", "pytorch": "torchtitan", "torchtitan": "torchtitan",
             "NVIDIA": "DeepLearningExamples", "huggingface": "Hugging Face"}  # fmt: skip
    source = row["source"]
    if "pytorch-image-models" in source:
        return "timm, RTX 3090"
    origin = next((name for start, name in named.items() if source.startswith(start)), source.split()[0])
    return f"{origin}, {family}"


def table_by_group(done: list[dict]) -> list[str]:
    """A table in Markdown: how many rows of each group are near enough."""
    groups: dict[str, list[dict]] = {}
    for row in done:
        groups.setdefault(group_of(row["row"]), []).append(row)
    heads = ("rows of", "in scope", "memory within 5 %", "ran rows fit", "throughput within 25 %, one node", "median")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for name, members in sorted(groups.items()):
        results = [row["result"] for row in members]
        memory = [abs(r["memory_error"]) <= 0.05 for r in results if "memory_error" in r]
        ran = [r["ran"] != "does not fit" for r in results if "ran" in r]
        ratios = [
            row["result"]["throughput_ratio"]
            for row in members
            if "throughput_ratio" in row["result"] and int(row["row"]["n_gpus"]) <= 8
        ]
        near = [0.75 <= ratio <= 1.25 for ratio in ratios]
        shares = [f"{sum(hits)} of {len(hits)}" if hits else "" for hits in (memory, ran, near)]
        middle = f"{median(ratios):.2f}" if ratios else ""
        lines.append(f"| {name} | {len(members)} | {' | '.join(shares)} | {middle} |")
    return lines


def misses(done: list[dict]) -> list[str]:
    """The rows that are not near enough."""
    found = []
    for row in done:
        result = row["result"]
        memory = abs(result.get("memory_error", 0)) > 0.05 or result.get("ran") == "does not fit"
        slow = int(row["row"]["n_gpus"]) <= 8 and not 0.75 <= result.get("throughput_ratio", 1) <= 1.25
        if memory or slow:
            named = " ".join(row["row"][key] for key in ("model", "hardware", "n_gpus", "precision", "global_batch"))
            found.append(f"{named}  {describe(row['row'], result)}")
    return found


def describe(row, result) -> str:
    """One line of text."""
    parts = [f"{result['verdict']:12} reserved {result['reserved_gib']:6.1f}"]
    if "memory_error" in result:
        parts.append(f"published {row['peak_mem_gib']} ({result['memory_error']:+.1%})")
    if "throughput_ratio" in result:
        parts.append(
            f"throughput {result['throughput']:.4g} published {row['throughput']} (x{result['throughput_ratio']:.2f})"
        )
    return "  ".join(parts)


if __name__ == "__main__":
    main()
