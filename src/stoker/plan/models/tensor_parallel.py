"""Tensor and sequence parallelism on local shards: what crosses the wire, and nothing else.

Between blocks each rank holds its slice of the sequence; inside attention and feed-forward it holds all
tokens and its slice of the heads or columns (Korthikanti et al. 2022, arXiv 2205.05198). With no group,
everything here is the identity.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

_wire = torch.ops._c10d_functional


def _gather(x: torch.Tensor, group: Any) -> torch.Tensor:
    """(batch, sequence / ranks, width) to (batch, sequence, width)."""
    ranks = group.size()
    gathered = _wire.all_gather_into_tensor(x.contiguous(), ranks, group.group_name)
    gathered = _wire.wait_tensor(gathered)
    return torch.cat(gathered.chunk(ranks, dim=0), dim=1)


def _scatter(x: torch.Tensor, group: Any) -> torch.Tensor:
    """(batch, sequence, width) partial sums to (batch, sequence / ranks, width)."""
    ranks = group.size()
    stacked = torch.cat(x.chunk(ranks, dim=1), dim=0)
    return _wire.wait_tensor(_wire.reduce_scatter_tensor(stacked, "sum", ranks, group.group_name))


class _Enter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _gather(x, group)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _scatter(grads[0], ctx.group), None


class _Leave(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, group: Any) -> torch.Tensor:
        ctx.group = group
        return _scatter(x, group)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _gather(grads[0], ctx.group), None


def enter(x: torch.Tensor, group: Any) -> torch.Tensor:
    """From the slice of the sequence to all of it."""
    return x if group is None else _Enter.apply(x, group)


def leave(x: torch.Tensor, group: Any) -> torch.Tensor:
    """From partial sums over all of the sequence to the sum of this rank's slice."""
    return x if group is None else _Leave.apply(x, group)


class _ShardedCrossEntropy(torch.autograd.Function):
    """Cross entropy over logits whose vocabulary is spread over ranks, in fp32."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor, group: Any) -> torch.Tensor:
        name = group.group_name
        largest = _wire.wait_tensor(_wire.all_reduce(logits.amax(-1, keepdim=True), "max", name))
        shifted = logits - largest
        total = _wire.wait_tensor(_wire.all_reduce(shifted.exp().sum(-1, keepdim=True), "sum", name))
        log_probabilities = shifted - total.log()
        del shifted
        own = targets.clamp(max=logits.size(-1) - 1)
        picked = log_probabilities.gather(-1, own.unsqueeze(-1)).squeeze(-1)
        picked = _wire.wait_tensor(_wire.all_reduce(picked, "sum", name))
        ctx.save_for_backward(log_probabilities, own)
        return -picked.mean()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        log_probabilities, own = ctx.saved_tensors
        gradient = log_probabilities.exp()
        gradient.scatter_add_(-1, own.unsqueeze(-1), torch.full_like(own, -1.0, dtype=gradient.dtype).unsqueeze(-1))
        return gradient.mul_(grads[0] / own.numel()), None, None


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor, group: Any) -> torch.Tensor:
    """Mean cross entropy of (tokens, vocabulary / ranks) logits in fp32."""
    if group is None:
        return F.cross_entropy(logits.float(), targets)
    return _ShardedCrossEntropy.apply(logits.float(), targets, group)


def ranks_of(group: Any) -> int:
    """Ranks in a tensor parallel group; 1 for none."""
    return 1 if group is None else int(group.size())


class VocabularyEmbedding(nn.Module):
    """Embedding of which each rank holds a slice of the vocabulary; the result is cut along the sequence."""

    def __init__(self, vocabulary: int, hidden: int, group: Any) -> None:
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.empty(vocabulary // ranks_of(group), hidden))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """(batch, sequence) to (batch, sequence / ranks, hidden)."""
        if self.group is None:
            return F.embedding(tokens, self.weight)
        own = tokens.clamp(max=self.weight.size(0) - 1)
        partial = F.embedding(own, self.weight)
        return leave(partial.masked_fill(own.ne(tokens).unsqueeze(-1), 0.0), self.group)
