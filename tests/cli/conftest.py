from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from stoker.cli.main import main


class Said(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


POINTS = """
import torch
from torch import nn
from torch.utils.data import TensorDataset
from stoker import make_task

def points():
    data = TensorDataset(torch.randn(256, 16), torch.randn(256, 1))
    return make_task(lambda: nn.Linear(16, 1), data, nn.functional.mse_loss)
"""


@pytest.fixture
def points(tmp_path: Path) -> str:
    """A small task, as a run file beside it names it."""
    (tmp_path / "task.py").write_text(POINTS)
    return "task.py:points"


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """The command line in this process, as `stoker WORDS`; captures what its child processes print, too."""

    def call(*words: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["stoker", *map(str, words)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert code is None or isinstance(code, int)
        said = capfd.readouterr()
        return Said(int(code or 0), said.out, said.err)

    return call
