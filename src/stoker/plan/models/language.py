"""Workloads of language models: batches of tokens and the losses of their heads."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from stoker.errors import UserError
from stoker.plan.models.config import TransformerConfig
from stoker.plan.models.tensor_parallel import cross_entropy
from stoker.plan.models.transformer import Transformer
from stoker.plan.workload import Piece, Workload


def language_workload(
    config: TransformerConfig, *, micro_batch: int = 1, sequence: int | None = None, **changes: Any
) -> Workload:
    """Training of a transformer on sequences of one length.

    Args:
        config: Its shape.
        micro_batch: Sequences per rank and forward pass.
        sequence: Tokens per sequence; the longest the model allows by default.
        changes: Any other field of the workload.

    Raises:
        UserError: If the sequence is longer than the model allows.
    """
    length = sequence or config.positions
    if length > config.positions and config.position == "learned":
        raise UserError(f"{config.name} takes at most {config.positions} tokens: --sequence {length} is too long")
    shape = dataclasses.replace(config, positions=max(length, config.positions if config.position == "learned" else 0))
    group: list[Any] = [None]

    def build_at(depth: int, piece: Piece) -> nn.Module:
        group[0] = piece.tensor_group
        return Transformer(dataclasses.replace(shape, layers=depth), piece)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.randint(0, shape.vocabulary, (size, length))
        per_sample = {"classify": (size,), "span": (size, 2)}.get(shape.head, (size, length))
        return tokens, torch.randint(0, 2, per_sample)

    def loss(model: nn.Module, data: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        tokens, targets = data
        return loss_of(shape, model(tokens), targets, group[0])

    def hidden(size: int) -> tuple[int, ...]:
        ranks = 1 if group[0] is None else group[0].size()
        return size, length // ranks, shape.hidden

    made = Workload(
        name=shape.name,
        build=functools.partial(build_at, shape.layers),
        batch=batch,
        loss=loss,
        samples_unit="sequences",
        tokens_per_sample=length,
        micro_batch=micro_batch,
        clip=1.0,
        depth=shape.layers,
        build_at=build_at,
        pieces=True,
        hidden=hidden,
    )
    return made.with_(**changes)


class _FusedLoss(torch.autograd.Function):
    """Stands in for a fused cross entropy: its memory and traffic, not its values.

    One pass reads the logits and keeps a number per token; the backward pass reads them again and writes
    their gradient in their own type.
    """

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        per_token = logits.amax(-1).float()
        ctx.save_for_backward(logits, targets, per_token)
        return per_token.mean()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor, None]:
        logits, _, _ = ctx.saved_tensors
        return logits * grads[0].to(logits.dtype), None


def loss_of(config: TransformerConfig, output: torch.Tensor, targets: torch.Tensor, group: Any) -> torch.Tensor:
    """Loss of what the model returned, by the kind of its head."""
    if config.head == "classify":
        return F.cross_entropy(output.float(), targets)
    if config.head == "span":
        start, end = output.split(1, dim=-1)
        first = F.cross_entropy(start.squeeze(-1), targets[:, 0])
        return (first + F.cross_entropy(end.squeeze(-1), targets[:, 1])) / 2
    if config.fused_loss and group is None:
        return _FusedLoss.apply(output.flatten(0, 1), targets.flatten(0, 1))
    return cross_entropy(output.flatten(0, 1), targets.flatten(0, 1), group)
