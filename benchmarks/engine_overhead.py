"""What the engine costs: steps per second of stoker, a hand-written loop, Lightning and Accelerate.

    python benchmarks/engine_overhead.py [--json] [--rounds N]

All train the same model on the same data with the same optimizer, in turns. Every turn of a program has
processes of its own, forked with all packages imported: what one leaves behind in the heap would speed up or
slow down the next. Every program calls one loss function that notes the time, so all are measured by the same
clock; start-up and the first steps are left out. A turn's rate is that of its median step; a ratio is the
median over the turns of the ratio within a turn. Peers run with logging and checkpoints off; stoker runs as it
is, with its metrics file and progress on. Needs the extra `bench`; a peer that is not installed is left out and
said to be. The machine must be idle: two compute threads that share their cores with anything else wait for
each other, forty times as long in the worst case seen.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch
import torch.distributed as dist
from common import Figure, machine, report
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

BATCH, STEPS, WARM = 64, 50, 10  # samples per step over all processes; steps per turn; steps not counted
CLASSES = 10
MOMENTS: list[float] = []


@cache
def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    count = BATCH * (STEPS + 2)
    return TensorDataset(
        torch.randn(count, 3, 32, 32, generator=generator), torch.randint(0, CLASSES, (count,), generator=generator)
    )


def make_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.GroupNorm(8, 32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.GroupNorm(8, 64), nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1), nn.GroupNorm(8, 64), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES),
    )  # fmt: skip


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)


def loss_of(model: nn.Module, images: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    """The one loss function; notes when it was called."""
    MOMENTS.append(time.perf_counter())
    return F.cross_entropy(model(images), labels, reduction=reduction)


def loader(processes: int) -> DataLoader:
    """As people write it."""
    sampler = DistributedSampler(data(), shuffle=True) if processes > 1 else None
    return DataLoader(data(), BATCH // processes, shuffle=sampler is None, sampler=sampler, drop_last=True)


def first_steps(batches: DataLoader) -> Iterator[list[Tensor]]:
    for number, batch in enumerate(batches):
        if number == STEPS:
            return
        yield batch


def hand_written(processes: int) -> None:
    model = make_model()
    if processes > 1:
        model = DistributedDataParallel(model)
    optimizer = make_optimizer(model)
    for images, labels in first_steps(loader(processes)):
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()


def stoker(processes: int) -> None:
    from stoker import Loss, Task
    from stoker.train import parse_spec, run

    del processes  # read from the environment

    class Benchmark(Task):
        def build_model(self) -> nn.Module:
            return make_model()

        def train_data(self) -> TensorDataset:
            return data()

        def loss(self, model: nn.Module, batch: list[Tensor]) -> Loss:
            return Loss(loss_of(model, *batch, reduction="sum"), len(batch[1]))

    spec = {
        "task": "benchmarks:given", "duration": f"{STEPS} steps", "batch": {"global_size": BATCH},
        "optimizer": {"lr": 1e-3}, "evaluate": {"every": "never"}, "checkpoint": {"every": "never"},
        "output": os.environ["BENCHMARK_FOLDER"], "precision": "fp32",
    }  # fmt: skip
    run(Benchmark(), parse_spec(spec))


def lightning_trainer(processes: int) -> None:
    import lightning

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_model()

        def training_step(self, batch: list[Tensor]) -> Tensor:
            return loss_of(self.model, *batch)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return make_optimizer(self.model)

    trainer = lightning.Trainer(
        accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto", max_steps=STEPS,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Module(), DataLoader(data(), BATCH // processes, shuffle=True, drop_last=True))


def lightning_fabric(processes: int) -> None:
    import lightning

    fabric = lightning.Fabric(accelerator="cpu", devices=processes, strategy="ddp" if processes > 1 else "auto")
    fabric.launch()
    model = make_model()
    model, optimizer = fabric.setup(model, make_optimizer(model))
    batches = fabric.setup_dataloaders(DataLoader(data(), BATCH // processes, shuffle=True, drop_last=True))
    for images, labels in first_steps(batches):
        optimizer.zero_grad()
        fabric.backward(loss_of(model, images, labels))
        optimizer.step()


def accelerate(processes: int) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = make_model()
    optimizer = make_optimizer(model)
    batches = DataLoader(data(), BATCH // processes, shuffle=True, drop_last=True)
    model, optimizer, batches = accelerator.prepare(model, optimizer, batches)
    for images, labels in first_steps(batches):
        optimizer.zero_grad()
        accelerator.backward(loss_of(model, images, labels))
        optimizer.step()


PROGRAMS: dict[str, tuple[Callable[[int], None], str]] = {
    "loop": (hand_written, "torch"),
    "stoker": (stoker, "stoker"),
    "Lightning Trainer": (lightning_trainer, "lightning"),
    "Lightning Fabric": (lightning_fabric, "lightning"),
    "Accelerate": (accelerate, "accelerate"),
}


def steps_per_second(program: Callable[[int], None], processes: int) -> float:
    MOMENTS.clear()
    program(processes)
    counted = MOMENTS[WARM:STEPS]
    assert len(counted) == STEPS - WARM, f"{program.__name__} made {len(MOMENTS)} steps"
    return 1 / statistics.median(later - earlier for earlier, later in pairwise(counted))


def on_rank(rank: int, processes: int, port: int, name: str, folder: str, answers: multiprocessing.Queue) -> None:
    """One turn of one program; rank 0 answers with its rate."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // processes))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "BENCHMARK_FOLDER": folder}
    if processes > 1:
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "TORCHELASTIC_RUN_ID": "benchmark"}
        os.environ |= {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
        dist.init_process_group("gloo")
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        rate = steps_per_second(PROGRAMS[name][0], processes)
    if rank == 0:
        answers.put(rate)
    if processes > 1:
        dist.barrier()


def turn_of(name: str, processes: int) -> float:
    """Steps per second of one program in fresh processes."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "stoker.train", *(package for _, package in PROGRAMS.values())])
    answers = context.Queue()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        ranks = [
            context.Process(target=on_rank, args=(rank, processes, port, name, folder, answers), daemon=True)
            for rank in range(processes)
        ]
        for process in ranks:
            process.start()
        try:
            return answers.get(timeout=120)
        finally:
            for process in ranks:
                process.join(10)
                process.kill()


def measure(processes: int, rounds: int) -> dict[str, list[float]]:
    """Rates of each program, one a turn."""
    names = [name for name, (_, package) in PROGRAMS.items() if find_spec(package)]
    rates: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:  # nobody always goes first
            rates[name].append(turn_of(name, processes))
    return rates


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median over the rounds of the ratio within a round: what disturbs a round disturbs both."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def figures_for(processes: int, rates: dict[str, list[float]]) -> list[Figure]:
    label = f"{processes} process" + ("es" if processes > 1 else "")
    peers = [name for name in rates if name not in ("loop", "stoker")]
    found = [Figure(f"stoker/loop {label}", ratio(rates["stoker"], rates["loop"]), "ratio", 0.98)]
    best = min((ratio(rates["stoker"], rates[peer]) for peer in peers), default=None)
    found.append(Figure(f"stoker/best peer {label}", best, "ratio", 1.0))
    return found + [Figure(f"{name} {label}", statistics.median(values), "steps/s") for name, values in rates.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    figures = [figure for count in (1, 2) for figure in figures_for(count, measure(count, options.rounds))]
    missing = sorted({package for _, package in PROGRAMS.values() if not find_spec(package)})
    if missing:
        print(f"not installed, so not measured: {', '.join(missing)}", file=sys.stderr)
    report(figures, machine("torch", "stoker", "lightning", "accelerate"), as_json=options.json)


if __name__ == "__main__":
    main()
