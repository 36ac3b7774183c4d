from __future__ import annotations

from pathlib import Path

import pytest
import torch

from stoker.errors import UserError
from stoker.train.dry_run import dry_run
from tests.runs import spec_of
from tests.tasks_for_tests import Blobs

NO_GPU = pytest.mark.skipif(torch.accelerator.is_available(), reason="says what a machine without a GPU does")


@NO_GPU
def test_every_decision_is_a_sentence(tmp_path: Path) -> None:
    lines = dry_run(Blobs(), spec_of(tmp_path / "run", "batch.global_size=20", "duration=2 epochs"), 3)
    assert lines == [
        f"devices: CPU, {torch.get_num_threads()} threads",
        "strategy: ddp over 3 processes on cpu",
        "precision: fp32, the CPU computes it at full speed",
        "batch: global batch 20 = 3 ranks x 1 micro-batch of at most 7",
        "data: 96 samples, 5 steps per epoch, data read by the ranks themselves",
        "duration: 2 epochs = 10 steps",
    ]
    assert list(tmp_path.iterdir()) == []


@NO_GPU
def test_other_decisions(tmp_path: Path) -> None:
    overrides = ("duration=2 hours", "precision=bf16", "data.workers=2", "batch.global_size=12", "batch.micro_size=4")
    said = "\n".join(dry_run(Blobs(), spec_of(tmp_path, *overrides), 1))
    for words in ("single on cpu", "bf16, as asked for", "1 rank x 3 micro-batches of 4", "2 data workers per rank",
                  "7200 seconds = as long as it takes"):  # fmt: skip
        assert words in said


@pytest.mark.parametrize(
    ("override", "sentence"),
    [("batch.global_size=97", "only 96 samples"), ("parallel.strategy=single", "single is for one process")],
)
def test_it_refuses_what_the_run_would_refuse(override: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        dry_run(Blobs(), spec_of(tmp_path, override), 2)
