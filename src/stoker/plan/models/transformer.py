"""A transformer, decoder or encoder, whole or one piece of it: as plain as its cost allows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from stoker.plan.models.config import TransformerConfig
from stoker.plan.models.tensor_parallel import VocabularyEmbedding, enter, leave, ranks_of
from stoker.plan.workload import Piece


class HandRMSNorm(nn.Module):
    """RMS norm computed in fp32 operator by operator, as most decoder code does."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape whose last dimension is the width."""
        wide = x.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return scaled.type_as(x) * self.weight


def make_norm(config: TransformerConfig) -> nn.Module:
    """The norm of this architecture."""
    if config.norm == "layer":
        return nn.LayerNorm(config.hidden, bias=config.biases)
    return HandRMSNorm(config.hidden) if config.norm == "rms" else nn.RMSNorm(config.hidden)


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of (batch, sequence, heads, size), in complex fp32 as in the Llama reference."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    turned = torch.view_as_real(pairs * angles.view(1, x.size(1), 1, pairs.size(-1)))
    return turned.flatten(3).type_as(x)


class _KeepingSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = x.softmax(-1)
        ctx.save_for_backward(result, x)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> torch.Tensor:
        result, _ = ctx.saved_tensors
        return torch.ops.aten._softmax_backward_data(grads[0], result, -1, result.dtype)


def keeping_softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Softmax over the last dimension that keeps its input, in fp32 under autocast like every softmax."""
    assert dim == -1
    return _KeepingSoftmax.apply(x.float() if torch.is_autocast_enabled() else x)


class Attention(nn.Module):
    """Self-attention over the heads of this rank."""

    def __init__(self, config: TransformerConfig, group: Any) -> None:
        super().__init__()
        ranks = ranks_of(group)
        self.config = config
        self.heads = config.heads // ranks
        self.kv_heads = max(1, config.kv_heads // ranks)
        size, bias = config.head_size, config.biases
        self.query = nn.Linear(config.hidden, self.heads * size, bias=bias)
        self.key = nn.Linear(config.hidden, self.kv_heads * size, bias=bias)
        self.value = nn.Linear(config.hidden, self.kv_heads * size, bias=bias)
        self.output = nn.Linear(self.heads * size, config.hidden, bias=bias)

    def forward(self, x: torch.Tensor, angles: torch.Tensor | None) -> torch.Tensor:
        """(batch, sequence, hidden) to the same, summed over ranks by the caller."""
        batch, length, _ = x.shape
        shape = (batch, length, -1, self.config.head_size)
        query, key, value = self.query(x).view(shape), self.key(x).view(shape), self.value(x).view(shape)
        if angles is not None:
            query, key = rotate(query, angles), rotate(key, angles)
        if self.kv_heads != self.heads:
            key, value = self._repeat(key), self._repeat(value)
        query, key, value = (t.transpose(1, 2) for t in (query, key, value))
        mixed = self._fused(query, key, value) if self.config.attention == "fused" else self._unfused(query, key, value)
        return self.output(mixed.transpose(1, 2).contiguous().view(batch, length, -1))

    def _repeat(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, heads, size = x.shape
        repeats = self.heads // heads
        return x[:, :, :, None, :].expand(batch, length, heads, repeats, size).reshape(batch, length, -1, size)

    def _fused(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        dropout = self.config.dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=self.config.causal)

    def _unfused(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scores = torch.matmul(query, key.transpose(-1, -2)) / self.config.head_size**0.5
        length = scores.size(-1)
        if self.config.causal:
            hidden = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
            scores = scores.masked_fill(hidden, float("-inf"))
        else:
            scores = scores + torch.zeros(query.size(0), 1, 1, length, dtype=scores.dtype, device=scores.device)
        softmax = keeping_softmax if self.config.keeps_scores else F.softmax
        weights = F.dropout(softmax(scores, dim=-1), self.config.dropout, self.training)
        return torch.matmul(weights, value)


class FeedForward(nn.Module):
    """The feed-forward part, over the columns of this rank."""

    def __init__(self, config: TransformerConfig, group: Any) -> None:
        super().__init__()
        width = config.feed_forward // ranks_of(group)
        self.up = nn.Linear(config.hidden, width, bias=config.biases)
        self.gate = nn.Linear(config.hidden, width, bias=False) if config.gated else None
        self.down = nn.Linear(width, config.hidden, bias=config.biases)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence, hidden) to the same, summed over ranks by the caller."""
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    """Attention and feed-forward with their norms and residual sums."""

    def __init__(self, config: TransformerConfig, group: Any) -> None:
        super().__init__()
        self.config, self.group = config, group
        self.attention = Attention(config, group)
        self.feed_forward = FeedForward(config, group)
        self.attention_norm = make_norm(config)
        self.feed_forward_norm = make_norm(config)

    def forward(self, x: torch.Tensor, angles: torch.Tensor | None) -> torch.Tensor:
        """(batch, sequence / ranks, hidden) to the same."""
        if self.config.post_norm:
            x = self.attention_norm(x + self._drop(leave(self.attention(enter(x, self.group), angles), self.group)))
            return self.feed_forward_norm(x + self._drop(leave(self.feed_forward(enter(x, self.group)), self.group)))
        x = x + self._drop(leave(self.attention(enter(self.attention_norm(x), self.group), angles), self.group))
        inner = enter(self.feed_forward_norm(x), self.group)
        return x + self._drop(leave(self.feed_forward(inner), self.group))

    def _drop(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x, self.config.dropout, self.training) if self.config.dropout else x


class Embeddings(nn.Module):
    """Token, position and token type embeddings, with the norm and dropout that follow them in encoders."""

    def __init__(self, config: TransformerConfig, group: Any) -> None:
        super().__init__()
        self.config = config
        self.tokens = VocabularyEmbedding(config.vocabulary, config.hidden, group)
        learned = config.position == "learned"
        self.positions = nn.Embedding(config.positions, config.hidden) if learned else None
        self.types = nn.Embedding(config.token_types, config.hidden) if config.token_types else None
        self.norm = make_norm(config) if config.post_norm else None

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, sequence) to (batch, sequence / ranks, hidden)."""
        x = self.tokens(tokens)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(tokens)[:, : x.size(1)])
        if self.positions is not None:
            x = x + self.positions(torch.arange(x.size(1), device=x.device))
        if self.norm is not None:
            x = self.norm(x)
        return F.dropout(x, self.config.dropout, self.training) if self.config.dropout else x


class Head(nn.Module):
    """What follows the last block."""

    def __init__(self, config: TransformerConfig, group: Any) -> None:
        super().__init__()
        self.kind, self.group = config.head, group
        self.norm = None if config.post_norm else make_norm(config)
        self.dense = nn.Linear(config.hidden, config.hidden) if config.head in ("masked", "classify") else None
        self.dense_norm = nn.LayerNorm(config.hidden) if config.head == "masked" else None
        outputs = config.vocabulary // ranks_of(group) if config.head in ("language", "masked") else 2
        self.output = nn.Linear(config.hidden, outputs, bias=config.head != "language")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, sequence / ranks, hidden) to logits of every token, or of the sample."""
        if self.norm is not None:
            x = self.norm(x)
        if self.kind == "classify" and self.dense is not None:
            x = torch.tanh(self.dense(x[:, 0]))
        elif self.dense is not None and self.dense_norm is not None:
            x = self.dense_norm(F.gelu(self.dense(x)))
        return self.output(enter(x, self.group) if x.dim() == 3 else x)


class Transformer(nn.Module):
    """A whole transformer, or one stage of a pipeline."""

    angles: torch.Tensor | None

    def __init__(self, config: TransformerConfig, piece: Piece) -> None:
        super().__init__()
        group = piece.tensor_group
        first = config.layers * piece.stage // piece.stages
        last = config.layers * (piece.stage + 1) // piece.stages
        self.embeddings = Embeddings(config, group) if piece.first else None
        self.layers = nn.ModuleList(Block(config, group) for _ in range(first, last))
        self.head = Head(config, group) if piece.last else None
        if config.tied and self.embeddings is not None and self.head is not None and self.head.output.out_features > 2:
            self.head.output.weight = self.embeddings.tokens.weight
        rotary = config.position == "rotary"
        shape = (config.positions, config.head_size // 2)
        self.register_buffer("angles", torch.empty(shape, dtype=torch.complex64) if rotary else None, persistent=False)
        self.ranks = ranks_of(group)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens or the activations of the stage before, to activations or logits."""
        length = x.size(1) if self.embeddings is not None else x.size(1) * self.ranks
        if self.embeddings is not None:
            x = self.embeddings(x)
        angles = None if self.angles is None else self.angles[:length]
        for layer in self.layers:
            x = layer(x, angles)
        return x if self.head is None else self.head(x)
