"""Short runs, and what they left behind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from stoker import Task
from stoker.train import parse_spec, run

QUIET = {"observe": {"progress": "none", "tensorboard": False}}


@dataclass(frozen=True)
class Outcome:
    """What a run computed."""

    state: str
    rows: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    weights: dict[str, Tensor]

    @property
    def losses(self) -> Tensor:
        return torch.tensor([row["loss"] for row in self.rows], dtype=torch.float64)


def spec_of(output: Path, *overrides: str, **sections: Any) -> Any:
    """A spec with quiet defaults."""
    value = {"task": "tests:given", "duration": "20 steps", "output": str(output), **QUIET, **sections}
    return parse_spec(value, overrides=overrides)


def train_once(task: Task, output: Path, *overrides: str, **sections: Any) -> Outcome:
    """Train on this rank and read what was written."""
    result = run(task, spec_of(output, *overrides, **sections))
    weights = {name: value.detach().clone() for name, value in result.model.state_dict().items()}
    return Outcome(result.state, rows_of(output / "metrics.jsonl"), rows_of(output / "evaluations.jsonl"), weights)


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Objects of a JSON-lines file."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
