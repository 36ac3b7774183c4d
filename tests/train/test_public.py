"""The names people import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import stoker
import stoker.train
from stoker.errors import UserError


def test_every_public_name_is_there() -> None:
    for module in (stoker, stoker.train):
        for name in module.__all__:
            assert getattr(module, name) is not None
    assert stoker.Task is stoker.train.Task


@pytest.mark.parametrize("module", [stoker, stoker.train])
def test_a_name_that_is_not(module: Any) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'Tusk'"):
        _ = module.Tusk


def test_what_is_imported_when() -> None:
    """A spec is read without torch; without metrics a task trains without torchmetrics, as slow to import as torch."""
    code = """
import sys, stoker.train
spec = stoker.train.parse_spec({"task": "a:b", "duration": "1 epoch"})
print("torch" in sys.modules, spec.seed)
import stoker.train.engine
print("torch" in sys.modules, "torchmetrics" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False 0\nTrue False\n"


def test_a_mapping_is_checked_like_a_run_file(tmp_path: Path) -> None:
    train: Any = stoker.train
    with pytest.raises(UserError, match="did you mean 'duration'"):
        train(stoker.Task(), {"task": "x", "duraton": "1 epoch", "output": str(tmp_path)}, "duration=1 epochs")
