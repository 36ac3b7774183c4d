"""Every private torch interface the planner touches, in one package, with a self-test.

A planner has no GPU, yet the memory of a training step depends on what CUDA would do. It makes
`torch.cuda` behave, for fake tensors only, like a machine with GPUs of one kind: streams and events are
small Python objects, the properties are those of the planned GPU, attention picks the kernel that the GPU
would pick, and the backward pass does not ask the driver for a context.

All of it is global to the process and cannot be undone: it is called only in the subprocess that traces.
Tested with torch 2.11 to 2.14; on any other version the self-test decides.
"""

# pyright: reportPrivateImportUsage=false
from __future__ import annotations

from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from stoker.plan.trace.torch_private.cuda import pretend_cuda
from stoker.plan.trace.torch_private.distributed import fake_process_group, group_ranks, inside_sharding_propagation
from stoker.plan.trace.torch_private.hooks import TraceUnavailableError
from stoker.plan.trace.torch_private.self_test import self_test
from stoker.plan.trace.torch_private.streams import (
    FakeStream,
    current_fake_stream,
    current_stream,
    on_stream_event,
    reset_streams,
    use_stream,
)
from stoker.plan.trace.torch_private.tensors import (
    add_missing_fake_kernels,
    apply_to_tensors,
    device_asked,
    device_of,
    is_view,
    key_tensors_as_they_stand,
    multiply_all,
    outside_fake_mode,
    replace_module_apply,
    scaled_product,
    storage_key,
    unscale,
    watch_storage_resize,
)

__all__ = [
    "FakeStream",
    "FakeTensor",
    "FakeTensorMode",
    "TraceUnavailableError",
    "active_fake_mode",
    "add_missing_fake_kernels",
    "apply_to_tensors",
    "current_fake_stream",
    "current_stream",
    "device_asked",
    "device_of",
    "fake_process_group",
    "group_ranks",
    "inside_sharding_propagation",
    "is_view",
    "key_tensors_as_they_stand",
    "multiply_all",
    "on_stream_event",
    "outside_fake_mode",
    "pretend_cuda",
    "replace_module_apply",
    "reset_streams",
    "scaled_product",
    "self_test",
    "storage_key",
    "unscale",
    "use_stream",
    "watch_storage_resize",
]
