"""`torch.cuda` as the planned GPU."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import types
from typing import Any

import torch
from torch._subclasses import fake_tensor as fake_tensor_module
from torch._subclasses.fake_tensor import FakeTensorMode

from stoker.plan.trace.torch_private import streams
from stoker.plan.trace.torch_private.attention import choose_attention_like
from stoker.plan.trace.torch_private.hooks import TraceUnavailableError, deny_primary_context
from stoker.plan.trace.torch_private.streams import FakeEvent, FakeStream, use_stream


def pretend_cuda(*, name: str, capability: tuple[int, int], memory_bytes: int, sms: int, count: int) -> None:
    """Make this process believe that it has `count` GPUs of one kind, for fake tensors only.

    Raises:
        TraceUnavailableError: If this build of torch does not offer what is needed.
    """
    if torch.version.cuda is None:
        raise TraceUnavailableError("this torch was built without CUDA")
    deny_primary_context()
    properties = types.SimpleNamespace(
        name=name,
        major=capability[0],
        minor=capability[1],
        total_memory=memory_bytes,
        multi_processor_count=sms,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        gcnArchName="",
        is_integrated=False,
        L2_cache_size=40 << 20,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "device_count": count,
        "current_device": 0,
        "set_device": None,
        "init": None,
        "_lazy_init": None,
        "synchronize": None,
        "empty_cache": None,
        "get_device_properties": properties,
        "get_device_capability": capability,
        "get_device_name": name,
        "mem_get_info": (memory_bytes, memory_bytes),
        "is_bf16_supported": capability[0] >= 8,
        "reset_peak_memory_stats": None,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "manual_seed": None,
        "manual_seed_all": None,
        "set_rng_state": None,
    }
    cuda: Any = torch.cuda
    for attribute, answer in answers.items():
        setattr(cuda, attribute, lambda *_a, _answer=answer, **_k: _answer)
    cuda.get_rng_state = lambda *_a, **_k: torch.zeros(16, dtype=torch.uint8)
    cuda.Stream, cuda.Event, cuda.stream = FakeStream, FakeEvent, use_stream
    cuda.current_stream = lambda *_a: streams.timeline.current
    cuda.default_stream = lambda *_a: streams.timeline.default
    cuda.set_stream = lambda stream: setattr(streams.timeline, "current", stream)
    accelerator: Any = torch.accelerator
    accelerator.current_stream = lambda *_a: streams.timeline.current
    tensor: Any = torch.Tensor
    tensor.record_stream = lambda _tensor, _stream: None
    tensor.pin_memory = lambda own, *_a, **_k: own
    mode: Any = FakeTensorMode
    mode.avoid_device_init = property(lambda _self: True)
    fake_tensor_module.init_gpu_context = lambda _device: None
    choose_attention_like(capability)
