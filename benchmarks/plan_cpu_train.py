"""Really trains the models of `plan_models.py` on the CPU, for the planner's benchmarks: memory and time.

Two processes, the ranks, take one case after the other: importing torch and meeting over gloo takes longer than
most cases do.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent


class Case(NamedTuple):
    """One way to train one model.

    Attributes:
        model: Function of `plan_models.py`.
        size: Samples per rank and step.
        checkpointing: `none` or `full`.
        layout: As on the planner's command line: `single`, `ddp=2`, `fsdp2=2`.
    """

    model: str
    size: int
    checkpointing: str
    layout: str

    @property
    def ranks(self) -> int:
        """Processes that train."""
        return int(self.layout.partition("=")[2] or 1)


class Ranks:
    """Two processes that train; a context manager, so that they end with the block."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._orders = [context.Queue() for _ in range(2)]
        self._results = context.Queue()
        port = _free_port()
        self._processes = [
            context.Process(target=_serve, args=(rank, port, self._orders[rank], self._results), daemon=True)
            for rank in range(2)
        ]

    def __enter__(self) -> Ranks:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        for process in self._processes:
            process.terminate()
            process.join()

    def peak_bytes(self, case: Case) -> int:
        """Most bytes of tensors, on the rank that needs most."""
        return int(max(self._ask(case, "memory")))

    def step_seconds(self, case: Case) -> float:
        """Median time of a step, of the slower rank."""
        return max(self._ask(case, "time"))

    def _ask(self, case: Case, what: str) -> list[float]:
        for queue in self._orders[: case.ranks]:
            queue.put((case, what))
        answers = [self._results.get(timeout=300) for _ in range(case.ranks)]
        for answer in answers:
            if isinstance(answer, str):
                raise RuntimeError(f"{case}: {answer}")
        return answers


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _serve(rank: int, port: int, orders: Any, results: Any) -> None:
    import torch
    import torch.distributed as dist

    from stoker.host.malloc import keep_freed_memory

    torch.set_num_threads(1)
    keep_freed_memory()  # as `stoker train` does
    sys.path.insert(0, str(HERE))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=2)
    os.setpriority(os.PRIO_PROCESS, 0, 5)  # of this thread alone: those of gloo, there by now, never wait for it
    while True:
        case, what = orders.get()
        try:
            results.put(train_memory(case) if what == "memory" else train_time(case))
        except Exception as error:
            results.put(f"{type(error).__name__}: {error}")
        gc.collect()


@contextlib.contextmanager
def counted_on_all_threads() -> Generator[None]:
    """Let torch keep count of tensor memory on every thread; not while time is measured, for it takes some.

    The profiler turns the count on only for threads that it follows. Gloo's threads often hold the last reference
    to what they gathered or reduced: their releases would be missed, and the sum would grow without bound.
    """
    import torch

    library = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libc10.so"))
    switch = ctypes.c_bool.in_dll(library, "FLAGS_caffe2_report_cpu_memory_usage")
    switch.value = True
    try:
        yield
    finally:
        gc.collect()
        switch.value = False


def train_memory(case: Case) -> int:
    """Most bytes of tensors in a training step, the model's own included.

    Of FSDP2 the median of 15 steps counts: a thread of gloo that is late to run holds what it has sent for a
    moment longer, in a step here and there, and how late depends on what else the machine does.
    """
    from torch.profiler import ProfilerActivity, profile, record_function

    with counted_on_all_threads(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step = prepare(case)
        for number in range(16 if case.layout.startswith("fsdp2") else 2):
            with record_function(f"training step {number}"):
                step()
        del step
    first, *others = _peaks(seen)
    return max(first, int(statistics.median(others)))


def train_time(case: Case, steps: int = 9) -> float:
    """Median seconds of a step. One thread each: CPU time, so that what others do does not count."""
    step = prepare(case)
    times = [step() for _ in range(steps)]
    return statistics.median(times[2:])  # the first create the optimizer's state and pick kernels


def prepare(case: Case) -> Callable[[], float]:
    """Build, lay out, and return one training step, which returns its CPU seconds."""
    import plan_models
    import torch

    model, inputs, loss_of = getattr(plan_models, case.model)(micro_batch=case.size)
    model.train()
    model = _lay_out(model, case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)
    shapes = [(t.shape, t.dtype) for t in (inputs if isinstance(inputs, tuple) else (inputs,))]

    def step() -> float:
        # the batch is made anew in every step, as by a data loader
        batch = [torch.ones(shape, dtype=dtype) for shape, dtype in shapes]
        started = time.process_time()
        output = model(*batch)
        loss = loss_of(output)
        del output
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return time.process_time() - started

    return step


def _lay_out(model: Any, case: Case) -> Any:
    import torch

    from stoker.plan.layout import parse_layout
    from stoker.plan.trace.apply import apply_checkpointing, shard

    apply_checkpointing(model, case.checkpointing)
    if case.layout.startswith("ddp"):
        return torch.nn.parallel.DistributedDataParallel(model)
    if case.layout.startswith("fsdp2"):
        from torch.distributed.device_mesh import init_device_mesh

        shard(model, init_device_mesh("cpu", (case.ranks,)), parse_layout(case.layout), "fp32")
    return model


def _peaks(seen: Any) -> list[int]:
    """The largest count that torch kept in each step, above what the process held before."""
    counts: list[tuple[int, int, int]] = []
    spans: list[tuple[int, int]] = []
    waiting = list(seen.profiler.kineto_results.experimental_event_tree())
    while waiting:
        event = waiting.pop()
        waiting += event.children
        if event.name.startswith("training step "):
            spans.append((event.start_time_ns, event.end_time_ns))
        kind, details = event.typed
        if kind.name == "Allocation":
            counts.append((event.start_time_ns, details.total_allocated, details.alloc_size))
    counts.sort()
    before = counts[0][1] - counts[0][2]
    return [max(total for at, total, _ in counts if start <= at <= end) - before for start, end in sorted(spans)]
