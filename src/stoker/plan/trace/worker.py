"""The process that traces: a server that imports torch, and forks a child for each request.

A child pretends to have GPUs, which cannot be undone, traces, writes its reply and ends. Started by
`stoker.plan.trace.process`; each line of the standard input names the files of a request, and the exit status
of its child is answered.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

from stoker.errors import UserError
from stoker.plan.trace.extrapolate import blocks_of_stage, from_shallow
from stoker.plan.trace.log import Trace
from stoker.plan.trace.outline import outline
from stoker.plan.trace.resident import SMAPS, read_pages, resident
from stoker.plan.trace.run import Failure, Reply, Request, Source


def serve() -> None:
    """Answer requests until the standard input ends."""
    warnings.simplefilter("ignore")
    for name in _USED:
        importlib.import_module(name)
    gc.freeze()
    _mapped.update(read_pages(SMAPS.read_text()).files)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _as_child(json.loads(line))
        signal.signal(signal.SIGTERM, functools.partial(_end_with, child))
        _, status = os.waitpid(child, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


_USED = (
    "stoker.plan.trace.step",
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.testing._internal.distributed.fake_pg",
    "stoker.plan.models.language",
)
"""What every trace, and every program that trains, would import sooner or later."""

_mapped: dict[str, int] = {}
"""Bytes of each file that the server had in memory before it forked."""


def _as_child(order: dict[str, Any]) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.disable()  # a step makes many short-lived objects and few cycles: collecting them costs a third
    errors = os.open(order["errors"], os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(errors, 1)
    os.dup2(errors, 2)
    sys.path[:] = order["path"]
    os.chdir(order["folder"])
    status = 1
    try:
        with Path(order["request"]).open("rb") as file:
            request: Request | Source = pickle.load(file)
        reply = outline(request.make()) if isinstance(request, Source) else _trace(request)
        content = pickle.dumps(reply, protocol=pickle.HIGHEST_PROTOCOL)
        Path(order["reply"]).write_bytes(content)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _trace(request: Request) -> Reply:
    problem = prepare(request)
    return answer(request) if problem is None else Reply([], problem)


def _end_with(child: int, *_signal: object) -> NoReturn:
    os.kill(child, signal.SIGKILL)
    os._exit(1)


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
        torch_private.key_tensors_as_they_stand()
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
    held = resident(_mapped, read_pages(SMAPS.read_text())) if request.device == "cpu" else 0

    def at_depth(depth: int, stage: int) -> Trace:
        pieces = layout.pipeline * layout.interleave
        made = workload.at_depth(depth * pieces) if depth else workload
        return trace_step(made, layout, request.device, stage=stage, steps=request.steps)

    traces: list[Trace] = []
    for stage in request.stages:
        started = time.perf_counter()
        wanted = 0 if request.full else blocks_of_stage(workload, layout, stage)
        period = 2 if workload.checkpointing == "selective-layer" else 1
        found = from_shallow(functools.partial(at_depth, stage=stage), wanted, period)
        traces.append(at_depth(0, stage) if found is None else found)
        traces[-1].seconds = time.perf_counter() - started
        traces[-1].resident = held
    return traces


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
    serve()
