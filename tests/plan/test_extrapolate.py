"""Traces made out of shallow ones are those of the deep model."""

import json

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.trace.extrapolate import MisalignedError, extrapolate, from_shallow, same
from stoker.plan.trace.log import Memory, Tensor, Trace
from stoker.plan.trace.run import Source, trace

LLAMA = {
    "model_type": "llama", "vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 9, "num_attention_heads": 4,
    "num_key_value_heads": 4, "intermediate_size": 256, "max_position_embeddings": 64,
}  # fmt: skip
BERT = {
    "model_type": "bert", "vocab_size": 512, "hidden_size": 128, "num_hidden_layers": 9, "num_attention_heads": 4,
    "intermediate_size": 256, "max_position_embeddings": 64, "architectures": ["BertForQuestionAnswering"],
    "_attn_implementation": "eager",
}  # fmt: skip

CASES = [
    (LLAMA, "single", {"checkpointing": "selective"}),
    (LLAMA, "fsdp2=8", {"checkpointing": "full", "accumulation": 2}),
    pytest.param(LLAMA, "tp=2", {"checkpointing": "selective-layer"}, marks=pytest.mark.slow),
    pytest.param(BERT, "single", {"precision": "fp16", "accumulation": 2}, marks=pytest.mark.slow),
    pytest.param(LLAMA, "fsdp2=4,tp=2", {}, marks=pytest.mark.slow),
    pytest.param(LLAMA | {"num_hidden_layers": 18}, "fsdp2=2,pp=2", {"accumulation": 4}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("config", "layout", "changes"), CASES)
def test_the_made_trace_is_the_full_one(tmp_path, config, layout, changes):
    (tmp_path / "config.json").write_text(json.dumps(config))
    made_from = {"target": str(tmp_path / "config.json"), "micro_batch": 2}
    source = Source("stoker.plan.workload:load_workload", made_from, changes)
    gpu, arranged = find_gpu("H100 SXM"), parse_layout(layout)
    made = trace(source, arranged, gpu).traces
    full = trace(source, arranged, gpu, full=True).traces
    assert len(made) == len(full)
    for one, other in zip(made, full, strict=True):
        assert 0 < one.traced_depth < 9
        assert other.traced_depth == 0
        assert same(one, other)


def memory_trace(*requests):
    """Tensors of (bytes or the number of the tensor to release)."""
    made = Trace("cuda", 1)
    for allocated, value in requests:
        if allocated:
            made.tensors.append(Tensor(value, "forward", 0, 0, 0))
            made.memory.append(Memory(len(made.tensors) - 1, value, 0))
        else:
            made.memory.append(Memory(value, 0, 0))
    return made


def layers(depth):
    """Activations of some layers, released in the opposite order."""
    forward = [(True, 100 + part) for _ in range(depth) for part in range(3)]
    return memory_trace((True, 7), *forward, (True, 8), *((False, n) for n in range(3 * depth + 1, 1, -1)))


def test_releases_in_the_opposite_order_find_their_allocations():
    assert same(extrapolate(layers(4), layers(5), (4, 5), 30), layers(30))


def test_what_does_not_repeat_is_refused():
    with pytest.raises(MisalignedError):
        extrapolate(layers(4), memory_trace((True, 1), (True, 2)), (4, 5), 30)
    with pytest.raises(MisalignedError):
        extrapolate(layers(4), layers(6), (4, 6), 9)


def test_a_shallow_model_is_traced_itself():
    asked = []
    assert from_shallow(lambda depth: asked.append(depth) or layers(depth), 5) is None
    assert len(asked) <= 1
    made = from_shallow(layers, 12)
    assert made is not None
    assert same(made, layers(12))
