"""Puts a layout on a model, in the order in which it must be done: checkpointing, then sharding."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from stoker.errors import UserError
from stoker.plan.layout import Layout
from stoker.plan.trace.formats import half_type
from stoker.plan.trace.torch_private import FakeTensor, apply_to_tensors, outside_fake_mode
from stoker.plan.workload import Checkpointing, Piece, Precision, Workload


def build_fake(workload: Workload, piece: Piece, device: str) -> nn.Module:
    """Build a model on fake tensors of a device.

    Some constructors read values back, such as a schedule of drop rates, or load weights. Those run on the
    CPU, with real tensors, and are made fake afterwards; so is a model that was there already.
    """
    try:
        with torch.device(device):
            model = workload.build(piece)
    except UserError:
        raise
    except Exception:
        with outside_fake_mode():
            model = workload.build(piece)
    if all(isinstance(tensor, FakeTensor) for tensor in (*model.parameters(), *model.buffers())):
        return model

    def like(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=device)

    return apply_to_tensors(model, like)


def repeated_blocks(model: nn.Module) -> list[nn.Module]:
    """The blocks that a model repeats: children of containers most of whose children are of one class.

    They are what is checkpointed and sharded one by one: the layers of a transformer, the bottlenecks of a
    ResNet, the stages of a ConvNeXt.
    """
    return list(_blocks_below(model))


def _blocks_below(module: nn.Module) -> Iterator[nn.Module]:
    for child in module.children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict | nn.Sequential) and _repeats(child):
            yield from (block for block in child.children() if any(True for _ in block.parameters()))
        else:
            yield from _blocks_below(child)


def _repeats(container: nn.Module) -> bool:
    children = list(container.children())
    if len(children) < 2:
        return False
    classes = [type(child) for child in children if any(True for _ in child.children())]
    return bool(classes) and max(classes.count(kind) for kind in set(classes)) * 2 > len(children)


def apply_checkpointing(model: nn.Module, kind: Checkpointing) -> int:
    """Recompute the activations of the repeated blocks in the backward pass; returns how many blocks."""
    if kind == "none":
        return 0
    blocks = repeated_blocks(model)
    if kind == "selective-layer":
        blocks = blocks[::2]
    for block in blocks:
        checkpoint_block(block, selective=kind == "selective")
    return len(blocks)


def checkpoint_block(block: nn.Module, *, selective: bool = False) -> None:
    """Recompute the activations of one block in the backward pass, all or most of them.

    The state of random generators is left alone: on fake tensors it decides nothing.
    """
    original = block.forward

    @functools.wraps(original)
    def forward(*args: Any, **kwargs: Any) -> Any:
        extra: dict[str, Any] = {"context_fn": _selective_contexts} if selective else {}
        return checkpoint(original, *args, use_reentrant=False, preserve_rng_state=False, **extra, **kwargs)

    block.forward = forward


def _selective_contexts() -> Any:
    """Keep attention, reductions over ranks and every second matrix product; compute the rest again."""
    aten = torch.ops.aten
    kept = {
        aten.mm.default,
        aten.addmm.default,
        aten._scaled_mm.default,
        aten._scaled_dot_product_efficient_attention.default,
        aten._scaled_dot_product_flash_attention.default,
        torch.ops._c10d_functional.reduce_scatter_tensor.default,
    }
    products = (aten.mm.default, aten.addmm.default, aten._scaled_mm.default)
    seen = {True: 0, False: 0}

    def policy(context: Any, func: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        if func in products:
            seen[context.is_recompute] += 1
            if seen[context.is_recompute] % 2 == 0:
                return CheckpointPolicy.PREFER_RECOMPUTE
        return CheckpointPolicy.MUST_SAVE if func in kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def shard(model: nn.Module, mesh: Any, layout: Layout, precision: Precision) -> None:
    """FSDP2 over the repeated blocks and what is left of the model, as torchtitan does.

    The last block is not freed after its forward pass: its backward pass comes next. In a pipeline nothing is
    freed between micro-batches.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    half = half_type(precision)
    policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=torch.float32 if half else None)
    reshard = layout.reshard and layout.pipeline == 1
    blocks = repeated_blocks(model)
    for number, block in enumerate(blocks):
        again = reshard and number < len(blocks) - 1
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=again)
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
