"""Number formats of a traced step: which type is computed in, and matrix products in eight bits.

Eight bits as torchao trains with them (float8, dynamic scaling by tensor): weights, activations and gradients are
cast before each product of a linear layer, and what is kept for the backward pass is what bf16 keeps. The casts are
priced as the two kernels that torch.compile makes of each: one that finds the largest value, one that casts.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn

from stoker.plan.trace.torch_private import scaled_product
from stoker.plan.workload import Precision

_HALF = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.bfloat16}
_PURE: dict[Precision, torch.dtype] = {"bf16-pure": torch.bfloat16, "fp16-pure": torch.float16}

MULTIPLE = 16
"""Dimensions that products in eight bits need to be a multiple of (torch._scaled_mm)."""


def half_type(precision: Precision) -> torch.dtype | None:
    """Type that mixed precision computes in; None where nothing is cast."""
    return _HALF.get(precision)


def hidden_type(precision: Precision) -> torch.dtype:
    """Type of activations between layers."""
    return _HALF.get(precision) or _PURE.get(precision, torch.float32)


def weight_type(precision: Precision) -> torch.dtype | None:
    """Type that the weights are cast to before training; None where they stay as the model made them."""
    return _PURE.get(precision)


class _Float8Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return scaled_product(_cast(x), _cast(weight).t(), x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight = ctx.saved_tensors
        gradient = _cast(grads[0])
        to_input = scaled_product(gradient, _cast(weight.t()).t(), x.dtype)
        to_weight = scaled_product(gradient.t().contiguous(), _cast(x.t()).t(), x.dtype)
        return to_input, to_weight.to(weight.dtype)


def _cast(x: torch.Tensor) -> torch.Tensor:
    """A matrix in eight bits, its rows one after the other."""
    x.amax()
    return x.to(torch.float8_e4m3fn, memory_format=torch.contiguous_format)


def _linear(layer: Any, x: torch.Tensor) -> torch.Tensor:
    """A linear layer whose three products run in eight bits: (..., in_features) to (..., out_features)."""
    if torch.is_autocast_enabled():
        x = x.to(torch.get_autocast_dtype("cuda"))
    rows = x.reshape(-1, layer.in_features)
    result = _Float8Product.apply(rows, layer.weight).view(*x.shape[:-1], layer.out_features)
    return result if layer.bias is None else result + layer.bias.to(result.dtype)


def use_float8(model: nn.Module) -> int:
    """Let the linear layers of a model compute in eight bits, all but the last one; returns how many do so.

    The last one makes the logits, which training keeps in bf16; so do those whose sizes are no multiple of 16.
    """
    layers: list[Any] = [module for module in model.modules() if type(module) is nn.Linear][:-1]
    fitting = [one for one in layers if one.in_features % MULTIPLE == 0 and one.out_features % MULTIPLE == 0]
    for layer in fitting:
        layer.forward = functools.partial(_linear, layer)
    return len(fitting)
