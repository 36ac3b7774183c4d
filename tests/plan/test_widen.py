"""A trace made of three others is the one that tracing gives."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.trace.extrapolate import MisalignedError, same
from stoker.plan.trace.log import Cost, Memory, Op, Tensor, Trace
from stoker.plan.trace.run import Source, trace_all
from stoker.plan.trace.widen import widen

CONFIG = {
    "model_type": "llama", "vocab_size": 544, "hidden_size": 192, "num_hidden_layers": 6,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 416, "max_position_embeddings": 56,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "checkpointing"), [("tp=2,fsdp2=2", "full"), ("pp=2,fsdp2=2", "none")])
def test_equal_to_the_full_trace(tmp_path, layout, checkpointing) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    arranged = parse_layout(layout)

    def job(layers, micro_batch):
        arguments = {"target": str(tmp_path), "layers": layers, "micro_batch": micro_batch}
        changes = {"accumulation": 2, "checkpointing": checkpointing}
        return Source("stoker.plan.workload:load_workload", arguments, changes), arranged

    jobs = [job(layers, micro) for layers in (4, 6) for micro in (1, 3)]
    small, wide, deep, last = (reply.traces for reply in trace_all(jobs, find_gpu("H100 SXM")))
    for near, broad, far, real in zip(small, wide, deep, last, strict=True):
        made = widen(near, broad, far)
        assert same(made, real)
        assert made.facts == real.facts


def log(*sizes: int, phase="forward", flops=(1.0,)) -> Trace:
    """Allocations of these sizes, and operators of as many floating point operations."""
    trace = Trace("cuda", 1)
    for size in sizes:
        trace.tensors.append(Tensor(size, phase, 0, 0, 0))
        trace.memory.append(Memory(len(trace.tensors) - 1, size, 0))
    trace.events = [Op("aten.mm", Cost("gemm", one, 1, 1, "float32", 1, ()), 0, phase, 0, 0) for one in flops]
    return trace


def test_what_looks_alike_is_told_apart_by_its_neighbours() -> None:
    made = widen(log(8, 5, 9, 5), log(8, 5, 18, 10), log(8, 5, 9, 5, 9, 5))
    assert [request.nbytes for request in made.memory] == [8, 5, 18, 10, 18, 10]
    assert [tensor.nbytes for tensor in made.tensors[1:]] == [8, 5, 18, 10, 18, 10]


def test_operators_take_the_numbers_of_their_counterparts() -> None:
    made = widen(log(flops=(1.0, 4.0)), log(flops=(2.0, 4.0)), log(flops=(4.0, 1.0, 1.0)))
    assert [op.cost.flops for op in made.ops()] == [4.0, 2.0, 2.0]


def test_the_optimizer_does_not_depend_on_the_micro_batch() -> None:
    made = widen(log(8, phase="optimizer"), log(8, phase="optimizer"), log(8, 24, phase="optimizer"))
    assert [request.nbytes for request in made.memory] == [8, 24]


def test_what_has_no_counterpart_is_refused() -> None:
    with pytest.raises(MisalignedError, match="1 entries"):
        widen(log(8), log(16), log(8, 24))
    with pytest.raises(MisalignedError, match="decides what runs"):
        widen(log(8), log(16, 16), log(8, 8))
    with pytest.raises(MisalignedError, match="look like"):  # two alike among alike neighbours
        widen(log(8, 8, flops=()), log(8, 16, flops=()), replace(log(8, 8, 8, 8, 8, 8, flops=())))
