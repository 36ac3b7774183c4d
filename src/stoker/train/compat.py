"""Every torch interface that is private or differs between versions, in one place.

Written for torch 2.11 to 2.15. What is missing in an older one refuses here with a sentence.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from stoker.errors import UserError

OLDEST = (2, 11)


def require_torch() -> None:
    """Refuse a torch that is too old.

    Raises:
        UserError: Says which version is needed.
    """
    found = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if found < OLDEST:
        raise UserError(
            f"torch {torch.__version__} is too old: stoker needs {'.'.join(map(str, OLDEST))} or newer "
            "(pip install -U 'stoker[train]')"
        )


def set_float32_precision(mode: str) -> None:
    """How CUDA computes float32 products: `ieee`, or `tf32` with a 10-bit mantissa (since Ampere).

    Only this interface may be used: reading the older `allow_tf32` after it raises.
    """
    torch.backends.cuda.matmul.fp32_precision = mode
    torch.backends.cudnn.conv.fp32_precision = mode  # pyright: ignore[reportAttributeAccessIssue]
    torch.backends.cudnn.rnn.fp32_precision = mode  # pyright: ignore[reportAttributeAccessIssue]


def loss_scale(scaler: torch.amp.GradScaler) -> Tensor:
    """The present loss scale, without waiting for the device as `get_scale` does; a scalar."""
    scale = scaler._scale  # pyright: ignore[reportPrivateUsage]
    return torch.tensor(scaler.get_scale()) if scale is None else scale.detach().clone()


@torch.no_grad()
def multiply_all(tensors: list[Tensor], factor: Tensor) -> None:
    """Multiply every tensor in place with a scalar tensor on the same device, in few kernels."""
    torch._foreach_mul_(tensors, factor)  # pyright: ignore[reportPrivateUsage]


def no_buffer_sync() -> dict[str, Any]:
    """The keyword with which DDP leaves buffers alone in forward; renamed in torch 2.14."""
    offered = inspect.signature(DistributedDataParallel.__init__).parameters
    return {"forward_sync_buffers" if "forward_sync_buffers" in offered else "broadcast_buffers": False}


def quiet_known_warnings() -> None:
    """Silence warnings that torch gives about its own insides."""
    warnings.filterwarnings("ignore", message=".*all_gather_into_tensor.*deprecated.*")
    warnings.filterwarnings("ignore", message=".*reduce_scatter_tensor.*deprecated.*")
    warnings.filterwarnings("ignore", message="The ``compute`` method of metric .* before the ``update``")
    warnings.filterwarnings("ignore", message=".*torch.distributed is disabled, unavailable or uninitialized.*")
