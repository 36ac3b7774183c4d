"""Which kernel attention runs on the planned GPU."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import warnings

import torch

_kept_alive: list[torch.library.Library] = []


def choose_attention_like(capability: tuple[int, int]) -> None:
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
