"""The process that traces: it pretends to have GPUs, which cannot be undone, and ends.

Run as `python -m stoker.plan.trace.worker request reply`; both are files of `stoker.plan.trace.run`.
"""

from __future__ import annotations

import functools
import gc
import pickle
import resource
import sys
import time
import traceback
import warnings
from pathlib import Path

from stoker.errors import UserError
from stoker.plan.trace.extrapolate import blocks_of_stage, from_shallow
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import Failure, Reply, Request


def main(request_path: str, reply_path: str) -> None:
    """Read a request, trace, write the reply."""
    warnings.simplefilter("ignore")
    with Path(request_path).open("rb") as file:
        request: Request = pickle.load(file)
    problem = prepare(request)
    reply = Reply([], problem) if problem is not None else answer(request)
    with Path(reply_path).open("wb") as file:
        pickle.dump(reply, file, protocol=pickle.HIGHEST_PROTOCOL)


def prepare(request: Request) -> Failure | None:
    """Let this process believe that it has the GPUs asked for; the reason if it cannot."""
    try:
        from stoker.plan.trace import torch_private

        if request.device == "cuda":
            torch_private.pretend_cuda(
                name=request.gpu_name,
                capability=request.capability,
                memory_bytes=request.memory_bytes,
                sms=request.sms,
                count=min(8, request.layout.ranks),
            )
        torch_private.replace_module_apply()
        torch_private.add_missing_fake_kernels()
        torch_private.self_test(request.device)
    except Exception as error:
        return Failure("torch", f"this build of torch cannot trace on fake GPUs: {error}", "")
    return None


def answer(request: Request) -> Reply:
    """Trace every stage asked for; what cannot be traced becomes a `Failure`. After `prepare`."""
    try:
        return Reply(_traces(request), None)
    except UserError as error:
        return Reply([], Failure("user", "\n".join(map(str, error.mistakes)), ""))
    except Exception as error:
        return Reply([], _failure(error))


def _traces(request: Request) -> list[Trace]:
    from stoker.plan.trace.step import trace_step

    workload, layout = request.source.make(), request.layout
    resident = _resident_bytes()

    def at_depth(depth: int, stage: int) -> Trace:
        pieces = layout.pipeline * layout.interleave
        made = workload.at_depth(depth * pieces) if depth else workload
        gc.disable()  # a step makes many short-lived objects and few cycles: collecting them costs a third
        try:
            return trace_step(made, layout, request.device, stage=stage, steps=request.steps)
        finally:
            gc.enable()

    traces: list[Trace] = []
    for stage in request.stages:
        started = time.perf_counter()
        wanted = 0 if request.full else blocks_of_stage(workload, layout, stage)
        period = 2 if workload.checkpointing == "selective-layer" else 1
        found = from_shallow(functools.partial(at_depth, stage=stage), wanted, period)
        traces.append(at_depth(0, stage) if found is None else found)
        traces[-1].seconds = time.perf_counter() - started
        traces[-1].resident = resident
    return traces


def _resident_bytes() -> int:
    """Physical memory of this process (proc(5), statm: pages in RAM)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _failure(error: Exception) -> Failure:
    """Name what cannot be traced, as far as the exception tells."""
    kind = type(error).__name__
    text = str(error).splitlines()[0] if str(error) else kind
    detail = "".join(traceback.format_exception(error)[-6:])
    if kind in ("DataDependentOutputException", "DynamicOutputShapeException"):
        return Failure("data", f"a value decides what runs next: {text}", detail)
    if kind in ("UnsupportedOperatorException", "UnsupportedFakeTensorException"):
        return Failure("operator", f"an operator has no fake kernel: {text}", detail)
    return Failure("error", f"{kind}: {text}", detail)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
