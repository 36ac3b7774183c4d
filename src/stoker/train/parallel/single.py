"""One process, one device."""

from __future__ import annotations

from torch import nn

from stoker.train.parallel.base import Strategy


class SingleStrategy(Strategy):
    """The model on one device."""

    name = "single"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Move the model."""
        return model.to(self.world.device)
