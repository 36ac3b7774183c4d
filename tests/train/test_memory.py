from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from stoker.errors import UserError
from stoker.train.memory import checkpoint_blocks, find_blocks


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True, dropout=0.1)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, depth: int = 12, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 50)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class PeakOfSaved:
    """Bytes that autograd keeps for backward, at their peak: counted when saved, discounted when dropped."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def __enter__(self) -> PeakOfSaved:
        self._hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, lambda kept: kept.tensor)
        self._hooks.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        self._hooks.__exit__(*args)

    def _pack(self, tensor: torch.Tensor) -> _Kept:
        self.now += tensor.nbytes
        self.peak = max(self.peak, self.now)
        return _Kept(tensor, self)


class _Kept:
    def __init__(self, tensor: torch.Tensor, count: PeakOfSaved) -> None:
        self.tensor, self._count = tensor, count

    def __del__(self) -> None:
        self._count.now -= self.tensor.nbytes


def _gradients(stride: int) -> tuple[list[torch.Tensor], int]:
    torch.manual_seed(0)
    model = Transformer()
    checkpointed = checkpoint_blocks(model, (), stride)
    assert checkpointed == (12 // stride if stride else 0)
    tokens = torch.randint(0, 50, (4, 64))
    torch.manual_seed(1)
    with PeakOfSaved() as saved:
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    return [weight.grad for weight in model.parameters() if weight.grad is not None], saved.peak


def test_full_checkpointing_halves_the_activations() -> None:
    plain, plain_peak = _gradients(stride=0)
    full, full_peak = _gradients(stride=1)
    half, half_peak = _gradients(stride=2)
    # Backward computes one block at a time again, which these hooks do not see: count it as a plain twelfth.
    full_peak, half_peak = full_peak + plain_peak // 12, half_peak + plain_peak // 12
    print(f"peak of saved activations: {plain_peak:,} bytes, every 2: {half_peak:,}, full: {full_peak:,}")
    assert full_peak <= 0.5 * plain_peak
    assert full_peak < half_peak < plain_peak
    for reference, ours, others in zip(plain, full, half, strict=True):
        assert torch.equal(reference, ours)
        assert torch.equal(reference, others)


def test_parameter_names_stay() -> None:
    model = Transformer(depth=2)
    before = list(model.state_dict())
    checkpoint_blocks(model, (), 1)
    assert list(model.state_dict()) == before


def test_blocks_are_found_in_torchvision_models() -> None:
    from torchvision.models import resnet18, vit_b_16

    assert [type(block).__name__ for block in find_blocks(resnet18())] == ["BasicBlock"] * 8
    assert [type(block).__name__ for block in find_blocks(vit_b_16())] == ["EncoderBlock"] * 12


def test_no_blocks_is_a_mistake() -> None:
    with pytest.raises(UserError, match="no repeated blocks"):
        checkpoint_blocks(nn.Linear(2, 2), (), 1)


def test_blocks_named_by_the_task() -> None:
    model = nn.ModuleDict({"a": Block(8), "b": Block(8), "c": nn.Linear(8, 8)})
    assert checkpoint_blocks(model, [model["a"]], 1) == 1
