"""Images and weights in channels-last order, where a layout takes them."""

from __future__ import annotations

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.trace.run import Source, trace

MODEL = """
import torch
from torch import nn

def convolved(micro_batch):
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3))
    return model, torch.randn(micro_batch, 8, 32, 32), lambda output: output.square().mean()
"""


@pytest.mark.parametrize(("layout", "said"), [("fsdp2=2", True), ("ddp=2", False)])
def test_fsdp2_is_planned_channels_first_and_says_so(tmp_path, layout, said):
    (tmp_path / "convolution.py").write_text(MODEL)
    arguments = {"target": f"{tmp_path}/convolution.py:convolved", "micro_batch": 2}
    source = Source("stoker.plan.workload:load_workload", arguments, {"channels_last": True})
    reply = trace(source, parse_layout(layout), find_gpu("A100"))
    assert reply.failure is None
    assert any("channels first" in note for note in reply.traces[0].facts.notes) == said
