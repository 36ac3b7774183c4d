"""Traces of small models, each in the process that the planner starts for it."""

import json
from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.memory import plan_memory
from stoker.plan.reached import kept_up
from stoker.plan.roofline import Roofline
from stoker.plan.speed import Conditions, plan_speed
from stoker.plan.trace.run import Source, trace

LLAMA = {
    "model_type": "llama", "vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 256, "max_position_embeddings": 64,
}  # fmt: skip

MODEL = """
import torch
from torch import nn
def plain(micro_batch=4):
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    return model, torch.randn(micro_batch, 16), lambda out: out.square().mean()
def halved(micro_batch=4):
    model, inputs, loss = plain(micro_batch)
    return model.to(torch.bfloat16), inputs.to(torch.bfloat16), loss
class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else x * self.layer.weight.sum()
def branching(micro_batch=4):
    return Branch(), torch.randn(micro_batch, 16), lambda out: out.sum()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    (path / "config.json").write_text(json.dumps(LLAMA))
    (path / "small_models.py").write_text(MODEL)
    return path


def source(target: Path | str, micro_batch=2, **changes):
    return Source("stoker.plan.workload:load_workload", {"target": str(target), "micro_batch": micro_batch}, changes)


def test_a_step_is_traced_with_everything_in_it(folder):
    reply = trace(source(f"{folder}/small_models.py:plain", precision="fp32"), parse_layout("single"), find_gpu("A100"))
    assert reply.failure is None
    traced = reply.traces[0]
    assert traced.parameters == 16 * 32 + 32 + 32 + 1
    # 3 products forward and backward but for the gradient of the input: 2 m n k each
    products = [op for op in traced.ops() if op.cost.kind == "gemm"]
    assert sum(op.cost.flops for op in products) == 2 * 2 * (16 * 32 * 2 + 32 * 3)
    states = [t for t in traced.tensors if t.role == "optimizer"]
    assert sum(t.nbytes for t in states) == 2 * 4 * traced.parameters
    live = 0
    for _, nbytes, _ in traced.memory:
        live += 1 if nbytes else -1
    assert live >= 0


def test_control_flow_on_values_is_named_and_estimated(folder):
    where = f"{folder}/small_models.py:branching"
    plan, reply = plan_memory(source(where, precision="fp32"), parse_layout("single"), find_gpu("A100"))
    assert reply.failure is not None
    assert reply.failure.kind == "data"
    assert not plan.exact
    assert any("closed-form" in note for note in plan.notes)
    assert any("value decides" in note for note in plan.notes)


def test_sharding_divides_what_a_rank_holds(folder):
    whole = trace(source(folder, precision="fp32"), parse_layout("single"), find_gpu("A100")).traces[0]
    reply = trace(source(folder, precision="bf16"), parse_layout("fsdp2=4"), find_gpu("A100"))
    assert reply.failure is None
    sharded = reply.traces[0]
    assert sharded.parameter_bytes == whole.parameter_bytes / 4
    kinds = [c.op for c in sharded.collectives()]
    # four blocks and the root: gathered forward, those freed again backward; scattered once
    assert kinds.count("reduce_scatter") == 5
    assert kinds.count("all_gather") >= 5 + 3


def test_pipeline_and_tensor_parallel_stages_are_planned(folder):
    made = source(folder, precision="bf16", accumulation=4)
    layout, gpu = parse_layout("fsdp2=2,tp=2,pp=2"), find_gpu("H100")
    plan, reply = plan_memory(made, layout, gpu)
    assert reply.failure is None
    assert plan.verdict == "fits"
    assert len(reply.traces) == 2
    fast = plan_speed(reply.traces, layout, gpu, Conditions())
    assert fast.step_seconds.low <= fast.step_seconds.expected <= fast.step_seconds.high
    assert fast.parts["pipeline bubble"] > 0


def test_the_time_at_the_peak_counts_no_recomputation(folder):
    gpu, layout = find_gpu("H100"), parse_layout("single")
    plans = {
        kind: plan_speed(trace(source(folder, checkpointing=kind), layout, gpu).traces, layout, gpu)
        for kind in ("none", "full")
    }
    none, full = plans["none"], plans["full"]
    assert full.seconds_at_peak == none.seconds_at_peak
    assert full.tflops_per_gpu * full.step_seconds.expected > 1.2 * none.tflops_per_gpu * none.step_seconds.expected
    arithmetic = none.tflops_per_gpu * 1e12 * none.step_seconds.expected
    assert none.seconds_at_peak == pytest.approx(arithmetic / gpu.flops["bfloat16"], rel=0.1)


@pytest.mark.slow
def test_checkpointing_and_batch_move_memory_the_right_way(folder):
    gpu = find_gpu("A100")
    sizes = {}
    for name, changes in {"none": {}, "full": {"checkpointing": "full"}}.items():
        plan, _ = plan_memory(source(folder, 64, precision="bf16", **changes), parse_layout("single"), gpu)
        sizes[name] = plan.categories["activations"]
        assert sum(plan.categories.values()) == pytest.approx(plan.device_bytes, rel=1e-6)
    assert sizes["full"] < 0.8 * sizes["none"]


def gemms(traced):
    return [op for op in traced.ops() if op.cost.kind == "gemm"]


def gemm_flops(traced):
    return sum(op.cost.flops for op in gemms(traced))


def test_linear_layers_in_eight_bits(folder):
    """Three products each, but for the one that makes the logits."""
    gpu, layout = find_gpu("H100"), parse_layout("fsdp2=2")
    half, eight = (trace(source(folder, precision=name), layout, gpu).traces[0] for name in ("bf16", "fp8"))
    products = [op for op in gemms(eight) if op.cost.dtype == "float8_e4m3fn"]
    assert len(products) == 4 * 7 * 3  # blocks, matrices of a block, passes
    assert gemm_flops(eight) == gemm_flops(half)
    roofline = Roofline(gpu)
    big = products[0]._replace(cost=products[0].cost._replace(flops=1e12, shape=()))
    same = big._replace(cost=big.cost._replace(dtype="bfloat16"))
    rates = {"bfloat16": 716e12, "float8_e4m3fn": 1402.6e12 * kept_up()[0]}  # reached.csv
    assert roofline.seconds(big) == pytest.approx(1e12 / rates["float8_e4m3fn"], rel=0.01)
    assert roofline.seconds(same) == pytest.approx(1e12 / rates["bfloat16"], rel=0.01)


def test_no_linear_layer_to_run_in_eight_bits(folder):
    with pytest.raises(UserError, match=r"precision fp8: .* has no linear layer that it could run in eight bits"):
        trace(source(f"{folder}/small_models.py:branching", precision="fp8"), parse_layout("single"), find_gpu("H100"))


def test_weights_stay_as_the_model_made_them_unless_they_are_asked_for_in_half(folder):
    """A model that brings its own half precision is not cast to fp32."""
    sizes = {
        (name, precision): trace(
            source(f"{folder}/small_models.py:{name}", precision=precision), parse_layout("single"), find_gpu("A100")
        ).traces[0].parameter_bytes
        for name, precision in (("plain", "bf16"), ("plain", "bf16-pure"), ("halved", "bf16"))
    }  # fmt: skip
    assert sizes["plain", "bf16"] == 2 * sizes["plain", "bf16-pure"] == 2 * sizes["halved", "bf16"]
