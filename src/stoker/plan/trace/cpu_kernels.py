"""What oneDNN takes inside its recurrent layers and convolutions, found out by running them on real memory.

The fake kernel of such a layer returns an empty workspace and packs no weights; that of a convolution does not
reorder images and weights into the blocks that oneDNN wants, nor keep partial sums. How large all that is depends
on the build of oneDNN and on the processor: the only source is the kernel itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from stoker.plan.trace.torch_private import outside_fake_mode

RECURRENT = frozenset(["mkldnn_rnn_layer", "mkldnn_rnn_layer_backward"])

CONVOLUTIONS = {"convolution": 1, "convolution_backward": 2}
"""Operators, and how many of their first arguments have the images of the batch in their first dimension."""

_FEW, _MORE = 2, 4
"""Images with which a convolution is tried: what it takes for more of them grows by as much for each."""


class Shape(NamedTuple):
    """What decides how much memory a kernel takes for a tensor."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def zeros(self) -> torch.Tensor:
        """A real tensor that looks like this."""
        reach = 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return torch.zeros(max(1, reach), dtype=self.dtype).as_strided(self.size, self.stride)


def with_real_workspace(func: Any, args: tuple[Any, ...], out: Any) -> tuple[Any, int]:
    """What a call returns, its workspace as large as it really is, and the bytes that it takes and gives back.

    Args:
        func: An operator of `RECURRENT`.
        args: What it was called with, on fake tensors.
        out: The fake tensors that it returned.
    """
    shapes, inside = _run(func, tuple(_described(arg) for arg in args))
    own = tuple(
        torch.empty(real.size, dtype=real.dtype) if real is not None and tuple(fake.shape) != real.size else fake
        for fake, real in zip(out, shapes, strict=True)
    )
    return own, inside


def inside_convolution(func: Any, args: tuple[Any, ...]) -> int:
    """Bytes that a convolution takes and gives back, beside what it returns.

    Args:
        func: An operator of `CONVOLUTIONS`.
        args: What it was called with, on fake tensors.
    """
    asked = tuple(_described(arg) for arg in args)
    images = args[0].shape[0]
    if images <= _FEW + _MORE:
        return _run(func, asked)[1]
    batched = CONVOLUTIONS[func._schema.name.split("::")[1]]
    few, more = (_run(func, _with_images(asked, batched, count))[1] for count in (_FEW, _MORE))
    return max(0, round(more + (images - _MORE) * (more - few) / (_MORE - _FEW)))


def _with_images(asked: tuple[Any, ...], batched: int, count: int) -> tuple[Any, ...]:
    smaller = tuple(shape._replace(size=(count, *shape.size[1:])) for shape in asked[:batched])
    return (*smaller, *asked[batched:])


def _described(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return Shape(tuple(value.shape), tuple(value.stride()), value.dtype)
    return tuple(value) if isinstance(value, list) else value


@functools.cache
def _run(func: Callable[..., Any], asked: tuple[Any, ...]) -> tuple[tuple[Shape | None, ...], int]:
    """Shapes of what the real kernel returns, and the most bytes that it holds beside that."""
    with outside_fake_mode(), torch.enable_grad():
        real = [arg.zeros() if isinstance(arg, Shape) else arg for arg in asked]
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
            results = func(*real)
    total = most = 0
    for nbytes in _allocations(seen):
        total += nbytes
        most = max(most, total)
    tensors = results if isinstance(results, tuple | list) else (results,)
    returned = sum(result.untyped_storage().nbytes() for result in tensors if isinstance(result, torch.Tensor))
    shapes = tuple(_described(result) if isinstance(result, torch.Tensor) else None for result in tensors)
    return shapes, max(0, most - returned)


def _allocations(seen: Any) -> list[int]:
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    return [event.nbytes() for event in sorted(events, key=lambda e: e.start_ns())]
