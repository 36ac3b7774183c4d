"""Whether this build of torch can trace."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from stoker.plan.trace.torch_private.hooks import TraceUnavailableError


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
