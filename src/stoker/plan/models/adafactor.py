"""Adafactor without reading a value back, so that it can be traced.

Shazeer and Stern 2018 (arXiv 1804.04235): second moments are kept as a row and a column of means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch


class Adafactor(torch.optim.Optimizer):
    """Factored second moments, no first moment, update clipping: the defaults of the paper."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float = 1e-3) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(  # pyright: ignore[reportIncompatibleMethodOverride] - no closure is ever given
        self, closure: Callable[[], Any] | None = None
    ) -> None:
        """One update of every parameter that has a gradient."""
        del closure
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group["lr"])

    def _update(self, parameter: torch.Tensor, rate: float) -> None:
        gradient = parameter.grad
        if gradient is None:
            return
        state = self.state[parameter]
        square = gradient**2 + 1e-30
        if gradient.dim() >= 2:
            if not state:
                state["row"] = torch.zeros(gradient.shape[:-1], dtype=gradient.dtype, device=gradient.device)
                column = gradient.shape[:-2] + gradient.shape[-1:]
                state["column"] = torch.zeros(column, dtype=gradient.dtype, device=gradient.device)
            state["row"].lerp_(square.mean(-1), 0.01)
            state["column"].lerp_(square.mean(-2), 0.01)
            row = (state["row"] / state["row"].mean(-1, keepdim=True)).rsqrt_().unsqueeze(-1)
            update = row * state["column"].unsqueeze(-2).rsqrt() * gradient
        else:
            if not state:
                state["square"] = torch.zeros_like(gradient)
            state["square"].lerp_(square, 0.01)
            update = state["square"].rsqrt() * gradient
        update.div_(update.norm() / update.numel() ** 0.5 + 1.0).mul_(rate)
        parameter.add_(-update)
