"""`stoker plan compare` from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MODEL = """
import torch
from torch import nn

def small(micro_batch):
    return nn.Linear(512, 512), torch.randn(micro_batch, 512), lambda output: output.square().mean()
"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "small.py").write_text(MODEL)
    return f"{tmp_path}/small.py:small"


def test_the_answer_as_data_and_as_a_page(model: str, tmp_path: Path, command: Callable[..., Any]) -> None:
    page = tmp_path / "cards.html"
    words = ["L40S", "2xA100 SXM4 80GB", "--model", model, "--price", "L40S=8000", "--html", page, "--format", "json"]
    code, out, err = command("plan", "compare", *words)
    assert code == 0
    cards = {card["label"]: card for card in json.loads(out)}
    assert set(cards) == {"L40S", "2 x A100 SXM4 80GB"}
    assert cards["L40S"]["price"] == 8000
    assert cards["L40S"]["per_thousand"]["expected"] > 0
    assert cards["2 x A100 SXM4 80GB"]["per_thousand"] is None
    assert err == f"the page is {page}\n"
    assert "<svg" in page.read_text()


def test_a_model_that_fits_no_card_is_exit_code_1(model: str, command: Callable[..., Any]) -> None:
    code, out, _ = command("plan", "compare", "L4", "--model", model, "--micro-batch", 60_000_000)
    assert code == 1
    assert "does not fit" in out


def test_mistakes_come_before_any_work(command: Callable[..., Any]) -> None:
    code, out, err = command(
        "plan", "compare", "L4", "--model", "resnet18", "--precision", "fp12", "--checkpointing", "a"
    )
    assert (code, out) == (2, "")
    assert "--precision: fp12 is not known: write one of fp32" in err
    assert "--checkpointing: a is not known: write one of none" in err


def test_a_run_file_is_compared_as_it_would_run(points: str, tmp_path: Path, command: Callable[..., Any]) -> None:
    run = tmp_path / "run.yaml"
    run.write_text(f"task: {points}\nduration: 2 epochs\nbatch: {{global_size: 64}}\n")
    code, out, _ = command("plan", "compare", "L40S", "L4", "--model", run, "--format", "json")
    assert code == 0
    assert [card["verdict"] for card in json.loads(out)] == ["fits", "fits"]
    code, _, err = command("plan", "compare", "L4", "--model", run, "--micro-batch", 4)
    assert code == 2
    assert "write batch.micro_size=... instead" in err
