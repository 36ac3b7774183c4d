"""One process for several GPUs."""

from __future__ import annotations

import torch
from torch import nn

from stoker.errors import UserError
from stoker.train.parallel.base import Strategy


class DataParallelStrategy(Strategy):
    """torch's DataParallel: copies the model to every GPU in each step and gathers outputs on the first."""

    name = "dp"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Move and wrap the model.

        Raises:
            UserError: There are no two GPUs to spread over.
        """
        if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
            raise UserError("parallel.strategy: dp needs one process that sees two or more CUDA devices; write auto")
        return nn.DataParallel(model.to(self.world.device))

    def describe(self) -> str:
        """One sentence for the log, with the advice."""
        return (
            f"dp over {torch.cuda.device_count()} GPUs in one process; ddp is faster: one Python per GPU instead of "
            "one for all, no copy of the model in each step, and the first GPU holds no more than the others"
        )
