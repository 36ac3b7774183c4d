"""Gradient buckets of DistributedDataParallel, whose reducer is C++, reads storages and cannot be traced."""

from __future__ import annotations

import torch
from torch import nn

from stoker.plan.trace.recorder import Recorder
from stoker.plan.trace.torch_private import FakeStream, current_fake_stream, use_stream

FIRST_BUCKET = 1 << 20
BUCKET = 25 << 20


class GradientBuckets:
    """Allocates and reduces what DDP would: buckets of 25 MiB in reverse order of the parameters.

    The first bucket is 1 MiB (torch/nn/parallel/distributed.py). A bucket is reduced on its own stream as
    soon as its last gradient is there.

    Args:
        model: Its parameters are on the device.
        ranks: Global ranks that average.
        recorder: Writes the collectives down.
        as_view: `gradient_as_bucket_view`: gradients live in the buckets rather than beside them.
    """

    def __init__(self, model: nn.Module, ranks: tuple[int, ...], recorder: Recorder, *, as_view: bool) -> None:
        self._ranks, self._recorder, self._as_view = ranks, recorder, as_view
        self._stream = FakeStream()
        self._bucket_of: dict[nn.Parameter, int] = {}
        self._place: dict[nn.Parameter, int] = {}
        self._sizes = self._assign([p for p in model.parameters() if p.requires_grad])
        self._buffers: list[torch.Tensor] = []
        self._left: list[int] = []
        self._done: list[int] = []
        self.active = True
        self._allocate()
        for parameter in self._bucket_of:
            parameter.register_post_accumulate_grad_hook(self._arrived)

    def _assign(self, parameters: list[nn.Parameter]) -> list[int]:
        sizes: list[int] = []
        kinds: list[torch.dtype] = []
        limit = FIRST_BUCKET
        for parameter in reversed(parameters):
            nbytes = parameter.numel() * parameter.element_size()
            if not sizes or sizes[-1] >= limit or kinds[-1] != parameter.dtype:
                limit = BUCKET if sizes else FIRST_BUCKET
                sizes.append(0)
                kinds.append(parameter.dtype)
            self._bucket_of[parameter] = len(sizes) - 1
            self._place[parameter] = sizes[-1] // parameter.element_size()
            sizes[-1] += nbytes
        self._kinds = kinds
        return sizes

    def _allocate(self) -> None:
        device = next(iter(self._bucket_of)).device
        self._buffers.clear()
        for size, kind in zip(self._sizes, self._kinds, strict=True):
            self._buffers.append(torch.empty(size // kind.itemsize, dtype=kind, device=device))
            self._recorder.name_storage(self._buffers[-1], "gathered")

    def start(self) -> None:
        """Begin a backward pass after which gradients are averaged."""
        counts = [0] * len(self._sizes)
        for bucket in self._bucket_of.values():
            counts[bucket] += 1
        self._left, self._done = counts, []

    def _arrived(self, parameter: torch.Tensor) -> None:
        if not self.active or not isinstance(parameter, nn.Parameter) or parameter.grad is None:
            return
        bucket = self._bucket_of[parameter]
        place = self._place[parameter]
        view = self._buffers[bucket][place : place + parameter.numel()].view(parameter.shape)
        view.copy_(parameter.grad)
        if self._as_view:
            parameter.grad = view
        self._left[bucket] -= 1
        if not self._left[bucket]:
            self._stream.wait_stream(current_fake_stream())
            with use_stream(self._stream):
                self._recorder.collective("all_reduce", self._sizes[bucket], self._ranks, asynchronous=False)
            self._done.append(bucket)

    def finish(self) -> None:
        """Wait for the averages and put them back into the gradients."""
        current_fake_stream().wait_stream(self._stream)
        if self._as_view:
            return
        for parameter, bucket in self._bucket_of.items():
            if parameter.grad is not None:
                place = self._place[parameter]
                parameter.grad.copy_(self._buffers[bucket][place : place + parameter.numel()].view(parameter.shape))
