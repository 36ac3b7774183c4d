"""Throughput over the number of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stoker.plan import scaling
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.memory import judge
from stoker.plan.scaling import MOST, TRACED, layouts, scaling_curve
from stoker.plan.speed import Conditions, plan_speed
from stoker.plan.trace.run import Failure, Reply, Source, trace

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
    assert list(map(str, layouts(parse_layout("ddp=6")))) == ["single", "ddp=3", "ddp=6", "ddp=12", "ddp=24"]
    assert [str(one) for one in layouts(parse_layout("hsdp=2x8"))][:3] == ["fsdp2=8", "hsdp=2x8", "hsdp=4x8"]
    assert [one.ranks for one in layouts(parse_layout("tp=4"))] == [4, 8, 16]
    assert [one.ranks for one in layouts(parse_layout("single"))] == [1, 2, 4, 8]  # up to a node


def test_sizes_go_down_to_a_node_where_they_cost_nothing_and_are_few_where_each_is_traced():
    assert [one.ranks for one in layouts(parse_layout("ddp=256"))] == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert layouts(parse_layout("ddp=256"), node=64)[0].ranks == 32
    assert [one.ranks for one in layouts(parse_layout("ddp=2048"))][-2:] == [2048, MOST]
    sharded = layouts(parse_layout("fsdp2=512"))
    assert [one.ranks for one in sharded] == [8, 64, 512, 1024, 2048]
    assert len(sharded) == TRACED


@pytest.mark.parametrize(
    ("text", "traced"),
    [
        ("ddp=8", [True, True, False, False, False, False]),
        ("fsdp2=2", [True] * 3),
        ("single", [True, True, False]),
    ],
)
def test_the_size_that_was_asked_for_is_that_of_the_plan(source, text, traced):
    layout = parse_layout(text)
    reply, given = trace(source, layout, GPU), Conditions(gpus_per_node=4)
    found = scaling_curve(source, reply.traces, layout, GPU, given)
    (asked,) = [size for size in found.sizes if size.gpus == layout.ranks]
    plan = plan_speed(reply.traces, layout, GPU, given)
    assert asked.step_seconds == plan.step_seconds
    assert asked.samples_per_second == plan.samples_per_second
    assert asked.verdict == judge(reply.traces[0], GPU, layout).verdict
    assert [size.traced for size in found.sizes] == traced
    assert [size.gpus for size in found.sizes] == sorted(size.gpus for size in found.sizes)
    assert found.sizes[0].efficiency.expected == 1.0
    assert found.base == found.sizes[0].gpus
    last = found.sizes[-1]
    assert last.efficiency.low <= last.efficiency.expected <= last.efficiency.high
    assert last.efficiency.expected < 1.0
    leaves = last.gpus > 4  # the node
    assert any("ib-400" in line for line in found.assumptions) == leaves
    assert found.to_json()["sizes"][-1]["layout"] == last.layout


def test_copies_beside_tensor_parallel_ranks_are_traced_for_each_size(tmp_path):
    """With as many copies as tensor parallel ranks, the collectives of the two cannot be told apart by their size."""
    import json

    from tests.plan.test_trace import LLAMA

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    source = Source("stoker.plan.workload:load_workload", {"target": str(tmp_path), "micro_batch": 2}, {})
    layout = parse_layout("ddp=2,tp=2")
    found = scaling_curve(source, trace(source, layout, GPU).traces, layout, GPU)
    assert all(size.traced for size in found.sizes)
    (four,) = [size for size in found.sizes if size.layout == "ddp=4,tp=2"]
    alone = parse_layout("ddp=4,tp=2")
    assert four.step_seconds == plan_speed(trace(source, alone, GPU).traces, alone, GPU).step_seconds


def test_efficiency_compares_with_the_fewest_gpus_that_fit(source, monkeypatch):
    layout = parse_layout("ddp=2")
    traces = trace(source, layout, GPU).traces
    none = scaling_curve(source, traces, layout, replace(GPU, memory_gib=0.1))
    assert {size.verdict for size in none.sizes} == {"does not fit"}
    assert none.base == 1
    monkeypatch.setattr(
        scaling, "_verdict", lambda traces, layout, gpu, given: "fits" if layout.ranks >= 4 else "does not fit"
    )
    some = scaling_curve(source, traces, layout, GPU)
    assert some.base == 4
    shares = {size.gpus: size.efficiency.expected for size in some.sizes}
    assert shares[2] > shares[4] == 1.0 > shares[8]


def test_a_size_that_cannot_be_traced_is_named(source, monkeypatch):
    layout = parse_layout("fsdp2=2")
    reply = trace(source, layout, GPU)
    failed = Reply([], Failure("operator", "aten::mine has no fake kernel", ""))
    monkeypatch.setattr(scaling, "trace_all", lambda jobs, gpu, done: [failed] * len(jobs))
    found = scaling_curve(source, reply.traces, layout, GPU)
    assert [size.gpus for size in found.sizes] == [2]
    assert found.left_out[0] == "4 GPUs, fsdp2=4: aten::mine has no fake kernel"
    assert len(found.left_out) == 2


def test_the_processes_of_a_cpu_share_it(source):
    cpu, layout = replace(GPU, architecture="cpu"), parse_layout("ddp=2")
    found = scaling_curve(source, [], layout, cpu)
    assert found.sizes == ()
    assert "share it" in found.left_out[0]
