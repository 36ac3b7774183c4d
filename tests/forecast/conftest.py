from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stoker.train.spec import LoadedSpec, load_spec

TASK = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from stoker import make_task

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))

    def forward(self, x):
        return x + self.inner(x)

def points():
    model = lambda: nn.Sequential(nn.Linear(16, 64), *(Block() for _ in range(4)), nn.Linear(64, 1))
    return make_task(model, TensorDataset(torch.randn(256, 16), torch.randn(256, 1)), nn.functional.mse_loss)
"""
RUN = "task: points.py:points\nduration: 2 epochs\nbatch: {global_size: 64}\n"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    (tmp_path / "points.py").write_text(TASK)
    (tmp_path / "run.yaml").write_text(RUN)
    return tmp_path / "run.yaml"


@pytest.fixture
def loaded(run_file: Path) -> Callable[..., LoadedSpec]:
    return lambda *overrides: load_spec(run_file, overrides)
