"""What is known of a model that cannot be traced: its parameters, and the activations of a forward pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outline:
    """The measure of a model.

    Attributes:
        parameters: Their number.
        trainable: Those with gradients.
        largest: Bytes of the parameters of the largest repeated block, in fp32.
        activations: Bytes kept for the backward pass of one micro-batch; None if the forward pass failed too.
        reason: Why it failed; empty if it did not.
    """

    parameters: int
    trainable: int
    largest: int
    activations: int | None
    reason: str = ""


def outline(workload: Any) -> Outline:
    """Build the model on fake CPU tensors and, if that works, run its forward pass on them."""
    import torch
    from torch.autograd.graph import saved_tensors_hooks

    from stoker.plan.trace.apply import build_fake, repeated_blocks
    from stoker.plan.trace.formats import half_type
    from stoker.plan.trace.torch_private import FakeTensorMode, replace_module_apply, storage_key
    from stoker.plan.workload import Piece

    replace_module_apply()
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        kept[storage_key(tensor.untyped_storage())] = tensor.untyped_storage().nbytes()
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True):
        model = build_fake(workload, Piece(), "cpu")
        parameters = {id(p): p for p in model.parameters()}.values()
        blocks = [sum(p.numel() * 4 for p in block.parameters()) for block in repeated_blocks(model)]
        own = {storage_key(p.untyped_storage()) for p in parameters}
        activations, reason = None, ""
        try:
            half = half_type(workload.precision)
            data = workload.batch(workload.micro_batch)
            with (
                torch.autocast("cpu", dtype=half or torch.bfloat16, enabled=half is not None),
                saved_tensors_hooks(pack, lambda tensor: tensor),
            ):
                loss = workload.loss(model, data)
            activations = sum(size for key, size in kept.items() if key not in own)
            del loss
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outline(
            parameters=sum(p.numel() for p in parameters),
            trainable=sum(p.numel() for p in parameters if p.requires_grad),
            largest=max(blocks, default=0),
            activations=activations,
            reason=reason,
        )
