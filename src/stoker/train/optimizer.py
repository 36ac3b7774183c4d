"""From the spec to an optimizer of `torch.optim`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from stoker.errors import UserError
from stoker.train.spec.model import OptimizerSection


def make_optimizer(section: OptimizerSection, model: nn.Module, device: torch.device) -> torch.optim.Optimizer:
    """Build the optimizer over a model's trainable parameters.

    Raises:
        UserError: An option or parameter that this optimizer does not take.
    """
    kind = _find(section.name)
    named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
    if not named:
        raise UserError("the model has no trainable parameter: requires_grad is False for all of them")
    if section.name == "muon" and (flat := [name for name, weight in named if weight.ndim != 2]):
        raise UserError(
            f"optimizer.name: muon takes 2-D parameters only, but {flat[0]!r} and {len(flat) - 1} others are not; "
            "write adamw, or a class of your own that combines the two"
        )
    arguments: dict[str, Any] = {"lr": section.lr, **section.options}
    arguments.update(_implementation(section, kind, (weight for _, weight in named), device))
    groups = _groups(section, named, takes_decay="weight_decay" in inspect.signature(kind).parameters)
    try:
        return kind(groups, **arguments)
    except (TypeError, ValueError) as error:
        raise UserError(f"optimizer: {section.name} refuses its options: {error}") from None


def _find(name: str) -> type[torch.optim.Optimizer]:
    if ":" not in name:
        classes = {known.lower(): known for known in torch.optim.__all__}
        return getattr(torch.optim, classes[name])
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UserError(f"optimizer.name: {name} cannot be imported: {error}") from None


def _groups(
    section: OptimizerSection, named: list[tuple[str, nn.Parameter]], *, takes_decay: bool
) -> list[dict[str, Any]]:
    """Matrices decay; biases and norms, which have fewer dimensions, do not unless asked for."""
    if not takes_decay:
        if section.weight_decay:
            raise UserError(f"optimizer.weight_decay: {section.name} has no weight decay; remove it")
        return [{"params": [weight for _, weight in named]}]
    if section.decay_all or not section.weight_decay:
        return [{"params": [weight for _, weight in named], "weight_decay": section.weight_decay}]
    decaying = [weight for _, weight in named if weight.ndim >= 2]
    others = [weight for _, weight in named if weight.ndim < 2]
    groups = [
        {"params": decaying, "weight_decay": section.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _implementation(
    section: OptimizerSection,
    kind: type[torch.optim.Optimizer],
    weights: Iterable[nn.Parameter],
    device: torch.device,
) -> dict[str, bool]:
    """The keyword that selects an implementation; empty where the optimizer has one only."""
    offered = inspect.signature(kind).parameters
    wanted = section.implementation
    if wanted == "auto":
        plain = all(weight.is_floating_point() for weight in weights)
        if "fused" in offered and plain and device.type in ("cpu", "cuda"):
            return {"fused": True}
        if "foreach" in offered and device.type == "cuda":
            return {"foreach": True}
        return {}
    if wanted == "loop":
        return {name: False for name in ("fused", "foreach") if name in offered}
    if wanted not in offered:
        raise UserError(f"optimizer.implementation: {section.name} has no {wanted} implementation; write auto")
    return {wanted: True}
