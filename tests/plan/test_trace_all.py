"""Many traces at once are those that one at a time would give."""

from __future__ import annotations

import json

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout
from stoker.plan.trace.extrapolate import same
from stoker.plan.trace.run import Source, trace, trace_all

CONFIG = {
    "model_type": "llama", "vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 128, "max_position_embeddings": 32,
}  # fmt: skip


def source(target, **changes):
    return Source("stoker.plan.workload:load_workload", {"target": str(target)}, {"accumulation": 4, **changes})


def test_layouts_one_after_another(tmp_path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "wrong.py").write_text("import os\ndef gone(micro_batch=1):\n    os._exit(3)\n")
    gpu, done = find_gpu("H100 SXM"), list[int]()
    layouts = [parse_layout(text) for text in ("fsdp2=4", "tp=2,fsdp2=2", "pp=2,fsdp2=2", "fsdp2=4")]
    jobs = [(source(tmp_path), layout) for layout in layouts]
    jobs.insert(2, (source(f"{tmp_path}/wrong.py:gone"), parse_layout("single")))
    replies = trace_all(jobs, gpu, workers=1, done=lambda: done.append(1))
    broken = replies.pop(2)
    assert broken.failure is not None  # its process ended, and the next jobs went on
    assert [reply.failure for reply in replies] == [None] * 4
    assert [len(reply.traces) for reply in replies] == [1, 1, 2, 1]
    assert len(done) == 5
    alone = trace(source(tmp_path), layouts[0], gpu).traces[0]
    assert same(replies[0].traces[0], alone)
    assert same(replies[3].traces[0], alone)
    split = trace(source(tmp_path), layouts[2], gpu).traces  # a process for each stage
    assert all(same(*pair) for pair in zip(replies[2].traces, split, strict=True))


def test_a_mistake_of_the_user_is_a_failure_of_its_job(tmp_path) -> None:
    (tmp_path / "wrong.py").write_text("def model(micro_batch=1):\n    return 3\n")
    reply = trace_all([(source(f"{tmp_path}/wrong.py:model"), parse_layout("single"))], find_gpu("H100 SXM"))[0]
    assert reply.failure is not None
    assert reply.failure.kind == "user"
