"""Every private torch interface the planner touches, in one place, with a self-test.

A planner has no GPU, yet the memory of a training step depends on what CUDA would do. This module makes
`torch.cuda` behave, for fake tensors only, like a machine with GPUs of one kind: streams and events are
small Python objects, the properties are those of the planned GPU, attention picks the kernel that the GPU
would pick, and the backward pass does not ask the driver for a context.

All of it is global to the process and cannot be undone: it is called only in the subprocess that traces.
Tested with torch 2.11 to 2.14; on any other version the self-test decides.
"""

# This file exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import ctypes
import functools
import re
import types
import warnings
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._guards import active_fake_mode
from torch._subclasses import fake_tensor as fake_tensor_module
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily

__all__ = [
    "FakeStream",
    "FakeTensor",
    "FakeTensorMode",
    "TraceUnavailableError",
    "active_fake_mode",
    "add_missing_fake_kernels",
    "apply_to_tensors",
    "backward_sequence",
    "current_fake_stream",
    "current_stream",
    "fake_process_group",
    "forward_sequence",
    "group_ranks",
    "inside_sharding_propagation",
    "is_view",
    "multiply_all",
    "on_stream_event",
    "outside_fake_mode",
    "pretend_cuda",
    "reset_streams",
    "self_test",
    "storage_key",
    "unscale",
    "use_stream",
    "watch_storage_resize",
]


class TraceUnavailableError(Exception):
    """This build of torch cannot trace a step on fake GPUs; the message says what failed."""


# --------------------------------------------------------------------------------------------------
# Streams and events: plain objects that tell a listener about every record and wait


class _Timeline:
    """What the fake streams share: the current one, and who listens to records and waits."""

    def __init__(self) -> None:
        self.next_event = 1
        self.listener: Callable[[str, int, int], None] | None = None
        self.default = FakeStream.__new__(FakeStream)
        self.default.id = 0
        self.current = self.default
        self.streams = 1

    def tell(self, kind: str, stream: int, event: int) -> None:
        if self.listener is not None:
            self.listener(kind, stream, event)


class FakeEvent:
    """Stands in for `torch.cuda.Event`."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.id = 0

    def record(self, stream: FakeStream | None = None) -> FakeEvent:
        """Mark this point of the stream."""
        stream = stream or _timeline.current
        self.id = _timeline.next_event
        _timeline.next_event += 1
        _timeline.tell("record", stream.id, self.id)
        return self

    def wait(self, stream: FakeStream | None = None) -> None:
        """Hold the stream until this event."""
        (stream or _timeline.current).wait_event(self)

    def query(self) -> bool:
        """Everything is always done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, _other: FakeEvent) -> float:
        """No time passes here."""
        return 0.0


class FakeStream:
    """Stands in for `torch.cuda.Stream`; usable as a context manager like the real one."""

    id: int
    cuda_stream = 0
    priority = 0
    device_index = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.id = _timeline.streams
        _timeline.streams += 1
        self._previous: list[FakeStream] = []

    @property
    def stream_id(self) -> int:
        """As `id`."""
        return self.id

    @property
    def device(self) -> torch.device:
        """The one fake device."""
        return torch.device("cuda", 0)

    def record_event(self, event: FakeEvent | None = None) -> FakeEvent:
        """Mark this point of the stream."""
        return (event or FakeEvent()).record(self)

    def wait_event(self, event: FakeEvent) -> None:
        """Hold the stream until the event; one that was never recorded holds nothing."""
        if event.id:
            _timeline.tell("wait", self.id, event.id)

    def wait_stream(self, stream: FakeStream) -> None:
        """Hold the stream until the other has come this far."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Everything is always done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def is_capturing(self) -> bool:
        """No graph is ever captured."""
        return False

    def __enter__(self) -> FakeStream:
        self._previous.append(_timeline.current)
        _timeline.current = self
        return self

    def __exit__(self, *_exc: object) -> None:
        _timeline.current = self._previous.pop()

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return self is other


_timeline = _Timeline()


@contextlib.contextmanager
def use_stream(stream: FakeStream | None) -> Generator[None]:
    """Make a stream current in this block, as `torch.cuda.stream` does."""
    previous = _timeline.current
    if stream is not None:
        _timeline.current = stream
    try:
        yield
    finally:
        _timeline.current = previous


def reset_streams() -> None:
    """Number streams and events from the start again, for another trace in the same process."""
    _timeline.streams = _timeline.next_event = 1
    _timeline.current = _timeline.default


def current_stream() -> int:
    """Number of the stream that is current now; 0 is the default stream."""
    return _timeline.current.id


def current_fake_stream() -> FakeStream:
    """The stream that is current now."""
    return _timeline.current


def on_stream_event(listener: Callable[[str, int, int], None] | None) -> None:
    """Call `listener("record" | "wait", stream, event)` whenever a fake event is recorded or waited for."""
    _timeline.listener = listener


# --------------------------------------------------------------------------------------------------
# The CUDA hooks object of libtorch: its answer to "has this device a context?" must be "no"

_kept_alive: list[Any] = []


def _primary_context_slot() -> int:
    """Position of `hasPrimaryContext` in the virtual table, read from the headers that torch ships.

    The Itanium C++ ABI (Linux on x86-64 and aarch64) lays virtual functions out in the order of their
    declaration, base class first, with two entries for the destructor.
    """
    header = Path(torch.__path__[0]) / "include" / "ATen" / "detail" / "AcceleratorHooksInterface.h"
    if not header.exists():
        raise TraceUnavailableError(f"the header {header.name} of torch is missing: its table cannot be read")
    slot = 0
    for declaration in re.finditer(r"virtual\s+([^;{]*)", header.read_text(encoding="utf-8")):
        if "~" in declaration[1]:
            slot += 2
        elif "hasPrimaryContext" in declaration[1]:
            return slot
        else:
            slot += 1
    raise TraceUnavailableError("hasPrimaryContext is no longer declared in AcceleratorHooksInterface.h")


def _deny_primary_context() -> None:
    """Give the singleton of CUDA hooks a copied virtual table that denies a primary context.

    `GraphTask::stash_current_streams` asks every device that has a context for its stream; on a machine
    without a GPU the real function raises before it can say no.
    """
    library = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libtorch_cpu.so"))
    get_hooks = library._ZN2at6detail12getCUDAHooksEv
    get_hooks.restype = ctypes.c_void_p
    address = get_hooks()
    table = ctypes.c_void_p.from_address(address).value
    if not table:
        raise TraceUnavailableError("the CUDA hooks of this torch build have no virtual table")
    before, after = 2, 48  # offset-to-top and typeinfo stand before the functions; more than any version has
    words = (ctypes.c_void_p * (before + after)).from_address(table - before * ctypes.sizeof(ctypes.c_void_p))
    copied = (ctypes.c_void_p * (before + after))(*words)
    deny = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda _self, _index: False)
    copied[before + _primary_context_slot()] = ctypes.cast(deny, ctypes.c_void_p).value
    _kept_alive.extend((copied, deny))
    ctypes.c_void_p.from_address(address).value = ctypes.addressof(copied) + before * ctypes.sizeof(ctypes.c_void_p)


# --------------------------------------------------------------------------------------------------
# torch.cuda as the planned GPU


def pretend_cuda(*, name: str, capability: tuple[int, int], memory_bytes: int, sms: int, count: int) -> None:
    """Make this process believe that it has `count` GPUs of one kind, for fake tensors only.

    Raises:
        TraceUnavailableError: If this build of torch does not offer what is needed.
    """
    if torch.version.cuda is None:
        raise TraceUnavailableError("this torch was built without CUDA")
    _deny_primary_context()
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
    cuda.current_stream = lambda *_a: _timeline.current
    cuda.default_stream = lambda *_a: _timeline.default
    cuda.set_stream = lambda stream: setattr(_timeline, "current", stream)
    accelerator: Any = torch.accelerator
    accelerator.current_stream = lambda *_a: _timeline.current
    tensor: Any = torch.Tensor
    tensor.record_stream = lambda _tensor, _stream: None
    tensor.pin_memory = lambda own, *_a, **_k: own
    mode: Any = FakeTensorMode
    mode.avoid_device_init = property(lambda _self: True)
    fake_tensor_module.init_gpu_context = lambda _device: None
    _choose_attention_like(capability)


def _choose_attention_like(capability: tuple[int, int]) -> None:
    """Route scaled dot product attention to the kernel that a GPU of this compute capability would run.

    Without a driver torch falls back to the unfused form, which keeps the whole score matrix. The rules are
    those of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp: flash for fp16 and bf16 without mask and
    head size up to 256 from compute capability 8.0, memory-efficient otherwise.
    """
    aten = torch.ops.aten

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        half = query.dtype in (torch.float16, torch.bfloat16)
        if half and attn_mask is None and query.dim() == 4 and query.size(-1) <= 256 and capability >= (8, 0):
            flash = aten._scaled_dot_product_flash_attention
            return flash(query, key, value, dropout_p, is_causal, False, scale=scale)[0]
        if enable_gqa and key.size(-3) != query.size(-3):
            repeats = query.size(-3) // key.size(-3)
            key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
        if query.dim() != 4:
            plain = aten._scaled_dot_product_attention_math
            return plain(query, key, value, attn_mask, dropout_p, is_causal, scale=scale)[0]
        bias = attn_mask
        if bias is not None:
            if bias.dtype == torch.bool:
                bias = torch.zeros_like(bias, dtype=query.dtype).masked_fill_(bias.logical_not(), float("-inf"))
            bias = bias.expand(query.size(0), query.size(1), query.size(2), key.size(2))
        needs_grad = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        efficient = aten._scaled_dot_product_efficient_attention
        return efficient(query, key, value, bias, needs_grad, dropout_p, is_causal, scale=scale)[0]

    library = torch.library.Library("aten", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding a kernel warns
        for key in ("AutogradCUDA", "CUDA"):
            library.impl("scaled_dot_product_attention", attention, key)
    _kept_alive.append(library)


def replace_module_apply() -> None:
    """Let `module.to()` and friends work on fake tensors: the stock version swaps tensors and fails."""

    def apply(self: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> nn.Module:
        seen: dict[int, nn.Parameter] = {}
        for module in self.modules() if recurse else [self]:
            for key, parameter in module._parameters.items():
                if parameter is None:
                    continue
                if id(parameter) not in seen:
                    with torch.no_grad():
                        moved = fn(parameter)
                    fresh = parameter if moved is parameter else nn.Parameter(moved.detach(), parameter.requires_grad)
                    seen[id(parameter)] = seen[id(fresh)] = fresh
                module._parameters[key] = seen[id(parameter)]
            for key, buffer in module._buffers.items():
                if buffer is not None:
                    module._buffers[key] = fn(buffer)
        return self

    module_class: Any = nn.Module
    module_class._apply = apply


# --------------------------------------------------------------------------------------------------
# Distributed: a process group that talks to nobody, meshes and DTensor under fake tensors


def fake_process_group(world_size: int) -> None:
    """Start a process group of `world_size` ranks of which only the first exists.

    One of that size is kept: DTensor remembers groups by name, from one trace of a process to the next.
    """
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if dist.is_initialized():
        if dist.get_world_size() == world_size:
            return
        dist.destroy_process_group()
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=world_size)
    _make_meshes_real()
    _mark_sharding_propagation()


def _make_meshes_real() -> None:
    """Run the methods of DeviceMesh outside the fake mode: a mesh is a real CPU tensor that is read."""
    from torch.distributed.device_mesh import DeviceMesh

    names = (
        "__init__",
        "__getitem__",
        "_flatten",
        "_concatenate",
        "_get_slice_mesh_layout",
        "_create_sub_mesh",
        "_unflatten",
        "get_coordinate",
    )
    for name in names:
        member = DeviceMesh.__dict__.get(name)
        if member is None or getattr(member, "outside_fake_mode", False):
            continue
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member

        @functools.wraps(function)
        def outside(*args: Any, _function: Any = function, **kwargs: Any) -> Any:
            with unset_fake_temporarily():
                return _function(*args, **kwargs)

        kind = type(member) if isinstance(member, staticmethod | classmethod) else None
        wrapped: Any = kind(outside) if kind else outside
        wrapped.outside_fake_mode = True
        setattr(DeviceMesh, name, wrapped)


_propagating = 0


def inside_sharding_propagation() -> bool:
    """Whether DTensor is working out a shape right now: its tensors of global shape are never allocated."""
    return _propagating > 0


def _mark_sharding_propagation() -> None:
    from torch.distributed.tensor._sharding_prop import ShardingPropagator

    propagator: Any = ShardingPropagator
    original = propagator._propagate_tensor_meta_non_cached
    if getattr(original, "marked", False):
        return

    @functools.wraps(original)
    def marked(*args: Any, **kwargs: Any) -> Any:
        global _propagating
        _propagating += 1
        try:
            return original(*args, **kwargs)
        finally:
            _propagating -= 1

    setattr(marked, "marked", True)  # noqa: B010 - a function has no declared attributes
    propagator._propagate_tensor_meta_non_cached = marked


def group_ranks(group: Any) -> tuple[int, ...]:
    """Global ranks of a process group given as object, boxed object or name; empty if unknown."""
    if isinstance(group, str):
        resolve: Any = dist.distributed_c10d._resolve_process_group
        group = resolve(group)
    elif not isinstance(group, dist.ProcessGroup):
        try:
            group = dist.ProcessGroup.unbox(group)
        except (RuntimeError, TypeError):
            return ()
    return tuple(dist.get_process_group_ranks(group))


# --------------------------------------------------------------------------------------------------
# Tensors, storages and autograd


def outside_fake_mode() -> contextlib.AbstractContextManager[Any]:
    """Real tensors in this block."""
    return unset_fake_temporarily()


def apply_to_tensors(module: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Replace every parameter and buffer by what `fn` makes of it; after `replace_module_apply`."""
    return module._apply(fn)


def storage_key(storage: torch.UntypedStorage) -> int:
    """Address of the storage object: equal for all tensors that share it."""
    return storage._cdata


@functools.cache
def is_view(func: Any) -> bool:
    """Whether an operator only looks at its input: it aliases without writing and runs no kernel."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


def forward_sequence() -> int:
    """Number that the next autograd node will get."""
    return torch._C._autograd._get_sequence_nr()


def backward_sequence() -> int | None:
    """Number of the autograd node that runs now, in the backward pass; None outside."""
    node: Any = torch._C._current_autograd_node()
    return node._sequence_nr() if node is not None else None


@contextlib.contextmanager
def watch_storage_resize(listener: Callable[[torch.UntypedStorage, int], None]) -> Generator[None]:
    """Call `listener(storage, bytes_before)` after each `storage.resize_`: so FSDP frees and refills."""
    storage_class: Any = torch.UntypedStorage
    original = storage_class.resize_

    def resize(storage: torch.UntypedStorage, size: int) -> Any:
        before = storage.nbytes()
        result = original(storage, size)
        listener(storage, before)
        return result

    storage_class.resize_ = resize
    try:
        yield
    finally:
        storage_class.resize_ = original


def unscale(gradients: list[torch.Tensor], found: torch.Tensor, scale: torch.Tensor) -> None:
    """What `GradScaler` runs over the gradients."""
    torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)


def add_missing_fake_kernels() -> None:
    """Let fused optimizers run on fake tensors where torch has forgotten their meta kernel (SGD in 2.14).

    They change their arguments in place and return nothing, so there is nothing to compute.
    """
    library = torch.library.Library("aten", "IMPL")
    for name in ("_fused_sgd_", "_fused_adagrad_", "_fused_adam_", "_fused_adamw_"):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet is not None else ():
            full = f"aten::{name}" + ("" if overload == "default" else f".{overload}")
            if not torch._C._dispatch_has_kernel_for_dispatch_key(full, "Meta"):
                library.impl(full.removeprefix("aten::"), lambda *_a, **_k: None, "Meta")
    _kept_alive.append(library)


@torch.no_grad()
def multiply_all(tensors: list[torch.Tensor], factor: torch.Tensor) -> None:
    """Multiply every tensor in place by a scalar on its device, in few kernels."""
    torch._foreach_mul_(tensors, factor)


def self_test(device: str) -> None:
    """Run one small step on fake tensors of `device` and compare what must hold.

    Raises:
        TraceUnavailableError: If it fails; the message names the step.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            layer = nn.Linear(8, 8, device=device)
            output = layer(torch.empty(4, 8, device=device)).relu()
            output.sum().backward()
            gradient = layer.weight.grad
            heads = torch.empty(1, 2, 16, 8, device=device, dtype=torch.bfloat16, requires_grad=True)
            nn.functional.scaled_dot_product_attention(heads, heads, heads).sum().backward()
    except Exception as error:
        raise TraceUnavailableError(f"a small step on fake {device} tensors failed: {error}") from error
    if gradient is None or gradient.device.type != device or not isinstance(gradient, FakeTensor):
        raise TraceUnavailableError(f"the gradient of a small step is not a fake {device} tensor")
