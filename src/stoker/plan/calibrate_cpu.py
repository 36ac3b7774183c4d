"""What is timed on a CPU: every operator of small layers, forward, backward and update, at several sizes.

The layers are those that models are made of, in sizes from almost nothing to beyond the caches. Each operator that
they run is taken down with its arguments and timed by itself; its work is counted as in a trace, so that a trace
can be priced by what was measured next to it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from stoker.plan.trace.log import Cost
from stoker.plan.trace.opcost import cost


class Call(NamedTuple):
    """One operator with what it was called with."""

    name: str
    cost: Cost
    run: Callable[[], Any]


class _Capture(TorchDispatchMode):
    """Takes down every operator that runs a kernel, the first of each kind of work."""

    def __init__(self, seen: set[tuple[str, Cost]]) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.counted: Counter[tuple[str, Cost]] = Counter()
        self._seen = seen

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        out = func(*args, **given)
        namespace, _, name = func._schema.name.partition("::")
        work = cost(name, args, given, out)
        if work is None or not work.read + work.written:
            return out
        self.counted[name, work] += 1
        if (name, work) not in self._seen:
            self._seen.add((name, work))
            self.calls.append(Call(f"{namespace}.{name}", work, _in_turn(func, args, given, work)))
        return out


_WORKING_SET = 64 << 20
"""Bytes that the calls of one operator go round in: a training step touches so much between two uses of a tensor
that the caches of a core hold none of it any more."""

_MOST_COPIES = 64


def _in_turn(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], work: Cost) -> Callable[[], Any]:
    """Call the operator with one copy of its arguments after the other, into memory that was not just used."""
    copies = min(_MOST_COPIES, max(1, int(_WORKING_SET / (work.read + work.written))))
    turns: Any = None
    results: deque[Any] = deque(maxlen=copies)

    def run() -> None:
        nonlocal turns
        if turns is None:  # not before it is timed: all copies of all operators would be too much
            turns = cycle([args, *(tree_map_only(torch.Tensor, torch.clone, args) for _ in range(copies - 1))])
            for _ in range(copies):
                results.append(func(*next(turns), **kwargs))
        results.append(func(*next(turns), **kwargs))

    return run


def calls() -> Iterator[Call]:
    """Operators to time; each must be timed before the next is asked for, so that only one layer is held."""
    seen: set[tuple[str, Cost]] = set()
    for layer in _layers():
        with _Capture(seen) as capture:
            layer()
        with torch.no_grad():
            while capture.calls:
                yield capture.calls.pop(0)  # so that its copies go when it is timed


def around(part: Callable[[], None], clock: Callable[[Callable[[], Any]], float]) -> tuple[float, int]:
    """Seconds that a part of a step takes beyond its operators, and how many operators it runs.

    Args:
        part: Runs many operators on almost nothing.
        clock: Times one call.
    """
    part()
    with _Capture(set()) as capture:
        part()
    whole = clock(part)
    with torch.no_grad():
        alone = {(call.name.partition(".")[2], call.cost): clock(call.run) for call in capture.calls}
    operators = sum(seconds * capture.counted[key] for key, seconds in alone.items())
    return max(0.0, whole - operators), sum(capture.counted.values())


def parts() -> dict[str, Callable[[], None]]:
    """Parts of a step by the phase that they stand for: a chain of small layers, and the update of many of them."""
    layers = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(12)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    start = torch.ones(4, 8)

    def passes() -> None:
        model(start).sum().backward()

    def update() -> None:
        optimizer.step()

    return {"forward": passes, "optimizer": update}


Layer = Callable[..., torch.Tensor]


def _layers() -> Iterator[Callable[[], None]]:
    for layer, *sizes in (*_vectors(), *_rows(), *_images(), *_convolutions(), *_products(), *_sequences()):
        yield partial(_both, layer, *sizes)
    for count in (64, 1 << 12, 1 << 16, 1 << 19, 1 << 21):
        yield partial(_update, count)


def _both(layer: Layer, *sizes: tuple[int, ...]) -> None:
    """Forward and backward pass with inputs of these sizes."""
    out = layer(*(torch.randn(size, requires_grad=True) for size in sizes))
    out.backward(torch.ones_like(out))


def _update(count: int) -> None:
    """Two steps of an optimizer over one parameter, as the planner plans them on the CPU."""
    parameter = nn.Parameter(torch.randn(count))
    optimizer = torch.optim.AdamW([parameter], foreach=False)
    for _ in range(2):
        parameter.grad = torch.randn(count)
        optimizer.step()


Case = tuple[Any, ...]
"""A layer and the sizes of its inputs."""


def _square(x: torch.Tensor) -> torch.Tensor:
    return x**2


def _drop(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.1)


def _relu_in_place(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x * 1.5, inplace=True)


def _vectors() -> Iterator[Case]:
    one = (
        torch.sigmoid, torch.tanh, torch.exp, torch.neg, F.relu, F.gelu, F.silu, F.hardswish, F.hardsigmoid,
        torch.mean, _square, _drop, _relu_in_place,
    )  # fmt: skip
    for count in (256, 1 << 14, 1 << 18, 1 << 21):
        yield from ((function, (count,)) for function in one)
        yield from ((function, (count,), (count,)) for function in (torch.add, torch.mul, torch.div, torch.sub))


def _join(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y], 1)


def _transpose(x: torch.Tensor) -> torch.Tensor:
    return x.view(4, -1, x.size(1)).transpose(0, 1).contiguous()


def _first_half(x: torch.Tensor) -> torch.Tensor:
    return x[: x.size(0) // 2] * 1.0


def _rows() -> Iterator[Case]:
    for rows, columns in ((8, 32), (64, 256), (512, 512), (1024, 2048)):
        size = (rows, columns)
        labels = torch.randint(0, columns, (rows,))
        yield nn.LayerNorm(columns), size
        yield partial(F.cross_entropy, target=labels), size
        yield partial(torch.softmax, dim=-1), size
        yield partial(torch.sum, dim=0), size
        yield partial(F.glu, dim=-1), size
        yield _join, size, size
        yield _transpose, size
        yield _first_half, size


def _images() -> Iterator[Case]:
    for channels, side in ((16, 8), (256, 6), (64, 24), (32, 64), (64, 96)):
        size = (4, channels, side, side)
        yield nn.BatchNorm2d(channels), size
        yield nn.GroupNorm(8, channels), size
        yield nn.MaxPool2d(2), size
        yield nn.AdaptiveAvgPool2d(1), size
        yield nn.Upsample(scale_factor=2), size


_CONVOLUTIONS = (
    # batch, inputs, outputs, kernel, stride, side, groups
    (4, 3, 32, 3, 2, 96, 1), (4, 3, 64, 7, 2, 96, 1), (2, 16, 16, 3, 1, 64, 1), (4, 64, 64, 3, 1, 24, 1),
    (4, 32, 64, 3, 2, 32, 1), (4, 128, 128, 3, 1, 12, 1), (4, 256, 512, 3, 2, 6, 1), (4, 512, 512, 3, 1, 3, 1),
    (4, 64, 64, 1, 1, 24, 1), (8, 24, 96, 1, 1, 12, 1), (4, 256, 64, 1, 1, 6, 1), (4, 64, 256, 1, 1, 12, 1),
    (1, 64, 64, 3, 1, 96, 1), (4, 64, 64, 3, 1, 24, 64), (4, 256, 256, 5, 1, 6, 256), (4, 16, 16, 3, 2, 48, 16),
)  # fmt: skip


def _convolutions() -> Iterator[Case]:
    for batch, inputs, outputs, kernel, stride, side, groups in _CONVOLUTIONS:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
        yield layer, (batch, inputs, side, side)
    for width, length in ((32, 4096), (128, 512)):
        yield nn.Conv1d(width, 2 * width, 3, padding=1), (2, width, length)
    for width, side in ((64, 24), (128, 12)):
        yield nn.ConvTranspose2d(width, width // 2, 2, 2), (2, width, side, side)


def _products() -> Iterator[Case]:
    for rows, inputs, outputs in (
        (8, 512, 1000), (32, 64, 384), (64, 1024, 64), (128, 384, 768), (256, 256, 256), (256, 256, 4000),
        (1024, 128, 128), (512, 1024, 256), (2048, 64, 64),
    ):  # fmt: skip
        yield nn.Linear(inputs, outputs), (rows, inputs)
    for batch, rows, inner in ((256, 9, 32), (24, 65, 32), (16, 128, 64), (8, 512, 64)):
        yield torch.bmm, (batch, rows, inner), (batch, inner, rows)
    for size in ((2, 4, 64, 32), (2, 8, 128, 32), (1, 8, 512, 64)):
        yield partial(F.scaled_dot_product_attention, is_causal=True), size, size, size


class _Recurrent(nn.Module):
    """A recurrent layer without its last state."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.layer = nn.LSTM(inputs, width, batch_first=True)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        """Outputs of every position."""
        return self.layer(sequence)[0]


def _sequences() -> Iterator[Case]:
    for batch, inputs, width in ((2, 64, 128), (4, 128, 256), (16, 256, 256)):
        yield _Recurrent(inputs, width), (batch, 32, inputs)
    for words, width, count in ((2000, 128, 512), (20000, 32, 256), (4000, 256, 2048)):
        yield (partial(nn.Embedding(words, width), torch.randint(0, words, (count,))),)
