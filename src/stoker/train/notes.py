"""What a person should know about a model before it is trained."""

from __future__ import annotations

from torch import nn

from stoker.data.batches import BatchPlan

_OVER_THE_BATCH = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def notes_on(model: nn.Module, plan: BatchPlan) -> list[str]:
    """Sentences about layers whose result depends on how a batch is divided."""
    if plan.micro_size == plan.global_size:
        return []
    names = [name for name, part in model.named_modules() if isinstance(part, _OVER_THE_BATCH)]
    if not names:
        return []
    return [
        f"note: {len(names)} batch normalisations (the first: {names[0]}) take their statistics over {plan.micro_size} "
        f"samples at a time, not over the global batch of {plan.global_size}: another division gives another result"
    ]
