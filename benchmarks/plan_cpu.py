"""The planner against this machine's CPU: predicted and measured peak of tensor memory, and step time.

Every case is really trained for two steps; the measured peak comes from the profiler's record of every
allocation and release. The prediction traces the same model in CPU mode.

    python benchmarks/plan_cpu.py [--json] [--quick] [--time]
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODELS = ("cnn", "wide_cnn", "transformer", "lstm", "recommender", "detector")


def cases(quick: bool):
    """(model, micro-batch, checkpointing, layout)."""
    sizes = {
        "cnn": (4, 16),
        "wide_cnn": (4, 16),
        "transformer": (2, 8),
        "lstm": (4, 16),
        "recommender": (64, 512),
    }
    sizes["detector"] = (2, 6)
    for model in MODELS:
        for size in sizes[model][:1] if quick else sizes[model]:
            yield model, size, "none", "single"
            if model in ("cnn", "transformer", "wide_cnn"):
                yield model, size, "full", "single"
        for layout in ("ddp=2", "fsdp2=2"):
            yield model, sizes[model][0], "none", layout
    yield "transformer", 4, "full", "fsdp2=2"


def build(model: str, size: int):
    sys.path.insert(0, str(HERE))
    import plan_models

    return getattr(plan_models, model)(micro_batch=size)


def train(rank: int, world: int, case: tuple, port: int, queue, steps: int, profile: bool) -> None:
    """Train really, in this process; put the peak bytes, or the seconds per step, in the queue."""
    import torch

    torch.set_num_threads(1)
    model_name, size, checkpointing, layout = case
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    if world > 1:
        import torch.distributed as dist

        dist.init_process_group("gloo", rank=rank, world_size=world)
    from torch.profiler import ProfilerActivity, record_function

    context = torch.profiler.profile(activities=[ProfilerActivity.CPU], profile_memory=True) if profile else None
    if context:
        context.__enter__()
    model, inputs, loss_of = build(model_name, size)
    model.train()
    if checkpointing == "full":
        from stoker.plan.trace.apply import apply_checkpointing

        apply_checkpointing(model, "full")
    if layout.startswith("ddp"):
        model = torch.nn.parallel.DistributedDataParallel(model)
    elif layout.startswith("fsdp2"):
        from torch.distributed.device_mesh import init_device_mesh

        from stoker.plan.layout import parse_layout
        from stoker.plan.trace.apply import shard

        shard(model, init_device_mesh("cpu", (world,)), parse_layout(layout), "fp32")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    shapes = [(t.shape, t.dtype) for t in (inputs if isinstance(inputs, tuple) else (inputs,))]
    del inputs
    times = []
    with record_function("training steps"):
        for _ in range(steps):
            # the batch is made anew in every step, as by a data loader
            inputs = [torch.ones(shape, dtype=dtype) for shape, dtype in shapes]
            started = time.process_time()  # one thread: CPU time, so that other work does not count
            output = model(*inputs)
            loss = loss_of(output)
            del output
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            del loss, inputs
            times.append(time.process_time() - started)
    if context:
        context.__exit__(None, None, None)
        queue.put((rank, _peak(context)))
    else:
        queue.put((rank, statistics.median(times[1:])))
    if world > 1:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()


def _peak(profile) -> int:
    events = profile.profiler.kineto_results.events()
    start = min(e.start_ns() for e in events if e.name() == "training steps")
    total = peak = 0
    for event in sorted((e for e in events if e.name() == "[memory]"), key=lambda e: e.start_ns()):
        total += event.nbytes()
        if event.start_ns() >= start:
            peak = max(peak, total)
    return peak


def measure(case: tuple, port: int, *, steps: int = 2, profile: bool = True) -> float:
    """Peak bytes of the rank that needs most, or seconds per step."""
    world = int(case[3].partition("=")[2] or 1)
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    ranks = [
        context.Process(target=train, args=(rank, world, case, port, queue, steps, profile)) for rank in range(world)
    ]
    for rank in ranks:
        rank.start()
    results = [queue.get(timeout=300) for _ in ranks]
    for rank in ranks:
        rank.join(60)
    return max(value for _, value in results)


def predict(case: tuple):
    """Trace of one case in CPU mode."""
    from stoker.plan.layout import parse_layout
    from stoker.plan.trace.run import Source, trace

    model, size, checkpointing, layout = case
    target = f"{HERE / 'plan_models.py'}:{model}"
    changes = {"precision": "fp32", "checkpointing": checkpointing}
    source = Source("stoker.plan.workload:load_workload", {"target": target, "micro_batch": size}, changes)
    reply = trace(source, parse_layout(layout), None)
    if reply.failure:
        raise RuntimeError(f"{reply.failure.message}\n{reply.failure.detail}")
    return reply.traces[0]


def peak_of(trace) -> int:
    """Most bytes in use, as the CPU allocator is asked for them."""
    total = peak = 0
    sizes = {}
    for key, nbytes, _ in trace.memory:
        if nbytes:
            sizes[key] = nbytes
            total += nbytes
            peak = max(peak, total)
        else:
            total -= sizes.pop(key)
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="one batch size per model")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    errors, rows = [], []
    for number, case in enumerate(cases(arguments.quick)):
        if arguments.only and arguments.only not in " ".join(map(str, case)):
            continue
        measured = measure(case, 29600 + number)
        predicted = peak_of(predict(case))
        error = predicted / measured - 1
        errors.append(abs(error))
        rows.append(
            {
                "case": case,
                "measured_mib": measured / 2**20,
                "predicted_mib": predicted / 2**20,
                "error": error,
            }
        )
        if not arguments.json:
            name = " ".join(map(str, case))
            print(
                f"{name:45} measured {measured / 2**20:8.1f} MiB  predicted {predicted / 2**20:8.1f} MiB  {error:+.1%}",
                flush=True,
            )
    within = sum(error <= 0.03 for error in errors) / len(errors)
    figures = [
        {
            "name": "CPU memory within 3 %",
            "value": within,
            "unit": "fraction",
            "goal": 1.0,
            "higher_is_better": True,
        },
        {
            "name": "CPU memory worst error",
            "value": max(errors),
            "unit": "fraction",
            "goal": 0.03,
            "higher_is_better": False,
        },
    ]
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
        print(json.dumps({"machine": machine, "figures": figures, "rows": rows}, indent=1))
    else:
        print(f"{len(errors)} cases, {within:.0%} within 3 %, worst {max(errors):.1%}")


if __name__ == "__main__":
    main()
