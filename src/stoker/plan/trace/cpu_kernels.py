"""What oneDNN takes inside its recurrent layers, found out by running them once on real memory.

The fake kernel of such a layer returns an empty workspace, and packs no weights. How large both are depends on
the build of oneDNN and on the processor: the only source is the kernel itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from stoker.plan.trace.torch_private import outside_fake_mode

OPAQUE = frozenset(["mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"])

Shape = tuple[tuple[int, ...], torch.dtype]


def with_real_workspace(func: Any, args: tuple[Any, ...], out: Any) -> tuple[Any, int]:
    """What a call returns, its workspace as large as it really is, and the bytes that it takes and gives back.

    Args:
        func: An operator of `OPAQUE`.
        args: What it was called with, on fake tensors.
        out: The fake tensors that it returned.
    """
    asked = tuple(_shape(arg) or _frozen(arg) for arg in args)
    shapes, inside = _run(func, asked)
    own = tuple(
        torch.empty(real[0], dtype=real[1]) if real is not None and tuple(fake.shape) != real[0] else fake
        for fake, real in zip(out, shapes, strict=True)
    )
    return own, inside


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _shape(value: Any) -> Shape | None:
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else None


def _is_shape(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], torch.dtype)


@functools.cache
def _run(func: Callable[..., Any], asked: tuple[Any, ...]) -> tuple[tuple[Shape | None, ...], int]:
    """Shapes of what the real kernel returns, and the most bytes that it holds beside that."""
    with outside_fake_mode(), torch.enable_grad():
        real = [torch.zeros(*arg[0], dtype=arg[1]) if _is_shape(arg) else arg for arg in asked]
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            results = func(*real)
    total = most = 0
    for nbytes in _allocations(seen):
        total += nbytes
        most = max(most, total)
    returned = sum(result.untyped_storage().nbytes() for result in results if isinstance(result, torch.Tensor))
    return tuple(_shape(result) for result in results), max(0, most - returned)


def _allocations(seen: Any) -> list[int]:
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda e: e.start_ns())]
