"""Activation checkpointing: keep the inputs of repeated blocks, compute the rest again when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from stoker.errors import UserError


def checkpoint_blocks(model: nn.Module, blocks: Sequence[nn.Module], stride: int) -> int:
    """Checkpoint every `stride`-th block, in place; parameter names stay as they are.

    Args:
        model: The model.
        blocks: Blocks named by the task; empty: they are searched for.
        stride: 1 checkpoints all blocks, 2 every second one; 0 none.

    Returns:
        How many blocks are checkpointed.

    Raises:
        UserError: There are no repeated blocks.
    """
    chosen = blocks_to_checkpoint(model, blocks, stride)
    for block in chosen:
        block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    return len(chosen)


def blocks_to_checkpoint(model: nn.Module, blocks: Sequence[nn.Module], stride: int) -> list[nn.Module]:
    """The blocks that `checkpoint_blocks` checkpoints; arguments and errors as there."""
    if stride == 0:
        return []
    found = list(blocks) or find_blocks(model)
    if not found:
        raise UserError(
            "memory.activation_checkpointing: the model has no repeated blocks; "
            "name them in Task.blocks(), or write none"
        )
    return found[stride - 1 :: stride]


def find_blocks(model: nn.Module) -> list[nn.Module]:
    """The repeated blocks of a model: all children of one class in the lists and sequences that hold most.

    A list counts if at least two of its children are of the same class, hold parameters, and consist of
    several modules themselves (a row of plain layers is not worth it). Blocks inside blocks are left out.
    """
    by_class: dict[type[nn.Module], list[nn.Module]] = {}
    for container in model.modules():
        if not isinstance(container, nn.ModuleList | nn.Sequential):
            continue
        children = [child for child in container.children() if _is_block(child)]
        for kind in {type(child) for child in children}:
            alike = [child for child in children if type(child) is kind]
            if len(alike) >= 2:
                by_class.setdefault(kind, []).extend(alike)
    if not by_class:
        return []
    biggest = max(by_class.values(), key=lambda blocks: sum(_size(block) for block in blocks))
    return _outermost(biggest)


def _is_block(module: nn.Module) -> bool:
    return len(list(module.children())) > 0 and _size(module) > 0


def _size(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


def _outermost(blocks: list[nn.Module]) -> list[nn.Module]:
    inner = {id(part) for block in blocks for part in block.modules() if part is not block}
    return [block for block in blocks if id(block) not in inner]
