"""Throughput over the number of GPUs."""

from __future__ import annotations

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.scaling import MOST, layouts, scaling_curve
from stoker.plan.speed import Conditions, plan_speed
from stoker.plan.trace.run import Source, trace

GPU = find_gpu("A100 SXM4 80GB")
MODEL = """
from torch import nn
import torch

def small(micro_batch):
    model = nn.Sequential(nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512))
    return model, torch.randn(micro_batch, 512), lambda output: output.square().mean()
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small_one.py"
    path.write_text(MODEL)
    return Source("stoker.plan.workload:load_workload", {"target": f"{path}:small", "micro_batch": 64}, {})


def test_only_the_data_parallel_ranks_change():
    assert list(map(str, layouts(parse_layout("fsdp2=8,tp=2")))) == [
        "fsdp2=2,tp=2", "fsdp2=4,tp=2", "fsdp2=8,tp=2", "fsdp2=16,tp=2", "fsdp2=32,tp=2",
    ]  # fmt: skip
    assert [one.replicate for one in layouts(parse_layout("hsdp=2x8"))] == [2, 4, 8]
    assert layouts(parse_layout("tp=4")) == [parse_layout("tp=4")]
    assert max(one.ranks for one in layouts(parse_layout("ddp=2048"))) == MOST


@pytest.mark.parametrize(("text", "traced"), [("ddp=8", [False, False, True, False, False]), ("fsdp2=2", [True] * 3)])
def test_the_size_that_was_asked_for_is_that_of_the_plan(source, text, traced):
    layout = parse_layout(text)
    reply, given = trace(source, layout, GPU), Conditions(gpus_per_node=4)
    sizes = scaling_curve(source, reply.traces, layout, GPU, given)
    (asked,) = [size for size in sizes if size.gpus == layout.ranks]
    assert asked.samples_per_second == plan_speed(reply.traces, layout, GPU, given).samples_per_second
    assert [size.traced for size in sizes] == traced
    assert [size.gpus for size in sizes] == sorted(size.gpus for size in sizes)
    assert sizes[0].efficiency == 1.0
    assert sizes[-1].efficiency < 1.0
    assert sizes[-1].to_json()["layout"] == sizes[-1].layout


def test_a_size_that_cannot_be_traced_is_left_out(source, monkeypatch):
    from stoker.plan import scaling
    from stoker.plan.trace.run import Failure, Reply

    layout = parse_layout("fsdp2=2")
    reply = trace(source, layout, GPU)
    failed = Reply([], Failure("operator", "none", ""))
    monkeypatch.setattr(scaling, "trace_all", lambda jobs, gpu, done: [failed] * len(jobs))
    assert [size.gpus for size in scaling_curve(source, reply.traces, layout, GPU)] == [2]
