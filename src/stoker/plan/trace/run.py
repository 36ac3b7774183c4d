"""Asks another process to trace, and keeps what it found: the way in for everything outside this folder."""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import pickle
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from stoker.errors import UserError
from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.trace.log import Trace
from stoker.plan.trace.process import EndedError, server
from stoker.plan.workload import Workload


@dataclass(frozen=True)
class Source:
    """How another process makes the workload.

    Attributes:
        factory: `module:function` that returns a `Workload`.
        arguments: What it is called with.
        changes: Fields of the workload to set afterwards.
    """

    factory: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def make(self) -> Workload:
        """Make the workload here.

        Raises:
            UserError: If the factory refuses.
        """
        place, _, name = self.factory.partition(":")
        function = getattr(importlib.import_module(place), name)
        return function(**self.arguments).with_(**self.changes)


@dataclass(frozen=True)
class Request:
    """What to trace, as sent to the process that does."""

    source: Source
    layout: Layout
    device: Literal["cuda", "cpu"]
    gpu_name: str
    capability: tuple[int, int]
    memory_bytes: int
    sms: int
    stages: tuple[int, ...] = (0,)
    steps: int = 2
    full: bool = False


@dataclass(frozen=True)
class Failure:
    """Why there is no trace.

    Attributes:
        kind: `torch` if this build cannot trace at all, `data` for control flow that depends on values,
            `operator` for one without a fake kernel, `user` for a mistake, `error` for anything else.
        message: In one sentence.
        detail: The end of the traceback.
    """

    kind: Literal["torch", "data", "operator", "user", "error"]
    message: str
    detail: str


@dataclass(frozen=True)
class Reply:
    """Traces of the stages asked for, or why there are none."""

    traces: list[Trace]
    failure: Failure | None


def stages_to_trace(layout: Layout) -> tuple[int, ...]:
    """First, second and last stage: all between are as the second but hold fewer micro-batches."""
    return tuple(sorted({0, min(1, layout.pipeline - 1), layout.pipeline - 1}))


def trace(
    source: Source,
    layout: Layout,
    gpu: Gpu | None,
    *,
    stages: Sequence[int] | None = None,
    steps: int = 2,
    full: bool = False,
    cache: Path | None = None,
    workers: int = 2,
    timeout: float = 3600,
) -> Reply:
    """Trace a workload in another process, one per stage of a pipeline, at most `workers` at once.

    Args:
        source: How to make the workload.
        layout: How ranks are arranged.
        gpu: The planned GPU; None to trace the allocations of the CPU.
        stages: Stages of the pipeline; those of `stages_to_trace` by default.
        steps: Training steps.
        full: Whether to trace the model as deep as it is. Otherwise a model that repeats a block (`Workload.depth`)
            is traced at two small depths and the rest is repeated; see `stoker.plan.trace.extrapolate`.
        cache: Folder in which traces are kept; None to trace anew.
        workers: Processes at once.
        timeout: Seconds after which a process is given up.

    Raises:
        UserError: If the workload cannot be made because of what the user wrote.
    """
    wanted = tuple(stages if stages is not None else stages_to_trace(layout))
    traced = traced_layout(layout)
    requests = [_request(source, traced, gpu, (stage,), steps, full) for stage in wanted]
    with ThreadPoolExecutor(max_workers=max(1, workers)) as pool:
        replies = [job.result() for job in [pool.submit(_ask, one, cache, timeout) for one in requests]]
    for reply in replies:
        if reply.failure is not None:
            if reply.failure.kind == "user":
                raise UserError(*reply.failure.message.splitlines())
            return reply
    traces = [one for reply in replies for one in reply.traces]
    if traced != layout:
        traces = [one.with_ranks(traced.replicate, layout.replicate) for one in traces]
    return Reply(traces, None)


def trace_all(
    jobs: Sequence[tuple[Source, Layout]],
    gpu: Gpu,
    *,
    workers: int = 2,
    timeout: float = 3600,
    done: Callable[[], None] = lambda: None,
) -> list[Reply]:
    """Trace many workloads, each with all its stages in a process of its own.

    Unlike `trace` it raises nothing: a mistake of the user is a failure of that job alone.

    Args:
        jobs: How to make each workload, and its layout.
        gpu: The planned GPU.
        workers: Processes at once.
        timeout: Seconds after which a process is given up.
        done: Called after each job, from another thread.
    """

    def one(job: tuple[Source, Layout]) -> Reply:
        source, layout = job
        reply = _run(_request(source, layout, gpu, stages_to_trace(layout), steps=2, full=False), timeout)
        done()
        return reply

    with ThreadPoolExecutor(max_workers=max(1, workers)) as threads:
        return list(threads.map(one, jobs))


def traced_layout(layout: Layout) -> Layout:
    """Two ranks stand for any number where gradients are averaged and nothing else depends on their number."""
    if layout.is_ddp and layout.ranks == layout.replicate:
        return replace(layout, replicate=2)
    return layout


def _request(
    source: Source, layout: Layout, gpu: Gpu | None, stages: tuple[int, ...], steps: int, full: bool
) -> Request:
    if gpu is None:
        return Request(source, layout, "cpu", "", (0, 0), 0, 0, stages, steps, full)
    sms = gpu.sms or 100
    return Request(source, layout, "cuda", gpu.name, gpu.capability, gpu.memory_bytes, sms, stages, steps, full)


def _ask(request: Request, cache: Path | None, timeout: float) -> Reply:
    kept = None
    if cache is not None:
        # attention, and bf16, depend on whether the GPU is Ampere or later: those on one side share a trace
        key = (
            request.source,
            request.layout,
            request.device,
            request.capability >= (8, 0),
            request.stages,
            request.steps,
            request.full,
        )
        kept = cache / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.trace"
        if kept.exists():
            return _read(kept)
    reply = _run(request, timeout)
    if kept is not None and reply.failure is None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        aside = kept.with_suffix(f".{os.getpid()}")
        aside.write_bytes(pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL))
        aside.replace(kept)
    return reply


def _run(request: Request, timeout: float) -> Reply:
    with tempfile.TemporaryDirectory(prefix="stoker-plan-") as folder:
        asked, replied, errors = (Path(folder) / name for name in ("request", "reply", "errors"))
        asked.write_bytes(pickle.dumps(request))
        try:
            with server() as process:
                process.run(asked, replied, errors, timeout)
        except TimeoutError as error:
            return Reply([], Failure("error", str(error), ""))
        except EndedError as error:
            said = errors.read_text(errors="replace")[-2000:] if errors.exists() else ""
            return Reply([], Failure("torch", f"the tracing process ended early: {error}", said))
        return _read(replied)


def _read(file: Path) -> Reply:
    """Load a reply without looking for cycles, which among its many small objects takes two thirds of the time."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        return pickle.loads(file.read_bytes())
    finally:
        if collecting:
            gc.enable()
