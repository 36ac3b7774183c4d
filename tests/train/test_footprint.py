from __future__ import annotations

from pathlib import Path

import torch

from stoker.train.footprint import footprint, peak_resident, start_counting


def test_the_peak_of_this_process() -> None:
    device = torch.device("cpu")
    start_counting(device)
    before = footprint(device)
    assert before is not None
    held = torch.ones(64 << 20, dtype=torch.uint8)
    after = footprint(device)
    assert after is not None
    assert (after.kind, held.numel()) == ("resident", 64 << 20)
    assert after.peak_bytes - before.peak_bytes > 50 << 20


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert peak_resident(tmp_path / "status") is None
    (tmp_path / "status").write_text("Name: python\nVmHWM:     2048 kB\n")
    assert peak_resident(tmp_path / "status") == 2 << 20
