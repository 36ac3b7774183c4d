"""Several traces in one process are those that a process each would give."""

from __future__ import annotations

import json

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.trace.pool import TracePool
from stoker.plan.trace.run import Source, trace

CONFIG = {
    "model_type": "llama", "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "max_position_embeddings": 32,
}  # fmt: skip


def source(target, **changes):
    return Source("stoker.plan.workload:load_workload", {"target": str(target)}, {"accumulation": 4, **changes})


def test_layouts_one_after_another(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "wrong.py").write_text("import os\ndef gone(micro_batch=1):\n    os._exit(3)\n")
    gpu = find_gpu("H100 SXM")
    layouts = [parse_layout(text) for text in ("fsdp2=4", "tp=2,fsdp2=2", "pp=2,fsdp2=2", "fsdp2=4")]
    done: list[int] = []
    with TracePool(gpu, workers=1) as pool:
        replies = pool.trace([(source(tmp_path), layout) for layout in layouts], done=done.append)
        broken = pool.trace([(source(f"{tmp_path}/wrong.py:gone"), parse_layout("single"))])[0]
        after = pool.trace([(source(tmp_path), layouts[0])])[0]
    assert [reply.failure for reply in (*replies, after)] == [None] * 5
    assert [len(reply.traces) for reply in replies] == [1, 1, 2, 1]
    assert sorted(done) == [0, 1, 2, 3]
    assert broken.failure is not None  # the process ended, and the next job got a new one
    alone = trace(source(tmp_path), layouts[0], gpu).traces[0]
    for reply in (replies[0], replies[3], after):
        assert reply.traces[0].events == alone.events
        assert reply.traces[0].memory == alone.memory
