"""Tensors, storages, modules and autograd under fake tensors."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import dataclasses
import functools
import operator
from collections.abc import Callable, Generator
from typing import Any

import torch
from torch import nn
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily

_kept_alive: list[torch.library.Library] = []


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


def outside_fake_mode() -> contextlib.AbstractContextManager[Any]:
    """Real tensors in this block."""
    return unset_fake_temporarily()


def apply_to_tensors(module: nn.Module, fn: Callable[[torch.Tensor], torch.Tensor]) -> nn.Module:
    """Replace every parameter and buffer by what `fn` makes of it; after `replace_module_apply`."""
    return module._apply(fn)


def storage_key(storage: torch.UntypedStorage) -> int:
    """Address of the storage object: equal for all tensors that share it."""
    return storage._cdata


def device_of(tensor: torch.Tensor) -> torch.device:
    """Device of a tensor, without the dispatch that `tensor.device` costs on a fake one."""
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


def device_asked(func: Any, args: tuple[Any, ...]) -> torch.device | None:
    """The answer where all that is dispatched is `tensor.device`, which most calls are; None for anything else."""
    if func is not torch.ops.prim.device.default or not isinstance(args[0], FakeTensor):
        return None
    return None if args[0].fake_mode.in_kernel_invocation else args[0].fake_device


@functools.cache
def is_view(func: Any) -> bool:
    """Whether an operator only looks at its input: it aliases without writing and runs no kernel."""
    returns = func._schema.returns
    return bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)


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


def key_tensors_as_they_stand() -> None:
    """Take what describes a tensor whole into the key of the cache of fake kernels: it saves an eighth of a trace.

    torch walks through it for sizes that are symbols, which a trace has none of.
    """
    described: Any = getattr(fake_tensor, "TensorMetadata", None)
    if not hasattr(described, "_flatten_into"):
        return  # another way of making keys, which is right too
    values = operator.attrgetter(*(field.name for field in dataclasses.fields(described)))
    described._flatten_into = lambda self, result, *_: result.extend(values(self))


def scaled_product(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Product of two matrices in eight bits: (rows, inner) by rows and (inner, columns) by columns."""
    one = torch.ones((), device=a.device)
    return torch._scaled_mm(a, b, one, one, out_dtype=dtype)


@torch.no_grad()
def multiply_all(tensors: list[torch.Tensor], factor: torch.Tensor) -> None:
    """Multiply every tensor in place by a scalar on its device, in few kernels."""
    torch._foreach_mul_(tensors, factor)
