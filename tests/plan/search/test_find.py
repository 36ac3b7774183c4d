"""Searches over small models, from the question to the table."""

from __future__ import annotations

import json

import pytest

from stoker.errors import UserError
from stoker.plan.hardware import find_gpu
from stoker.plan.search.family import ModelFamily
from stoker.plan.search.find import Search, best_precision
from stoker.plan.search.outcome import Goal, best
from stoker.plan.search.space import Servers

CONFIG = {
    "model_type": "llama", "vocab_size": 512, "hidden_size": 256, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 512, "max_position_embeddings": 128,
}  # fmt: skip


@pytest.fixture
def family(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return ModelFamily(str(tmp_path))


@pytest.mark.slow
def test_a_search_on_two_kinds_of_server(family) -> None:
    told: list[tuple[str, int, int]] = []
    search = Search(family, Goal(16, 1e6), finalists=1, workers=1, tell=lambda *words: told.append(words))
    places = [Servers(find_gpu(name), gpus_per_server=2) for name in ("H100 SXM", "RTX 4090")]
    found = search.run(places)
    assert {option.servers.gpu.name for option in found.options if option.fits} == {one.gpu.name for one in places}
    assert best(found.options, search.goal) is min(found.options, key=lambda one: one.hours)
    assert all(option.shape.precision == "bf16" for option in found.options)
    assert any(option.plain for option in found.options)
    assert {what for what, _, _ in told} == {"sketches", "full traces"}
    assert all(done <= total for _, done, total in told)


@pytest.mark.slow
def test_a_deadline_stops_at_the_fewest_servers_that_meet_it(family) -> None:
    gpu = find_gpu("H100 SXM")
    places = [Servers(gpu, count, gpus_per_server=1) for count in (1, 2, 4)]
    easy = Search(family, Goal(16, 1e3, deadline_hours=1.0), finalists=1, workers=1).run(places)
    assert {option.servers.count for option in easy.options} == {1}
    never = Search(family, Goal(16, 1e15, deadline_hours=1.0), finalists=1, workers=1).run(places)
    assert never.options == ()
    assert any("at the very least" in note for note in never.notes)


def test_what_cannot_be_traced_is_said(tmp_path) -> None:
    (tmp_path / "wrong.py").write_text("def model(micro_batch=1):\n    return 3\n")
    search = Search(ModelFamily(f"{tmp_path}/wrong.py:model"), Goal(8, 1e3), workers=1)
    with pytest.raises(UserError, match="must return"):
        search.run([Servers(find_gpu("H100 SXM"), gpus_per_server=1)])


def test_number_formats() -> None:
    assert [best_precision(find_gpu(name)) for name in ("H100 SXM", "T4", "P100")] == ["bf16", "fp16", "fp32"]


def test_how_a_language_model_may_be_cut(family) -> None:
    assert family.cuts.tensor == (1, 2, 4)  # four heads
    assert family.cuts.stages == family.layers == 4
    assert ModelFamily("resnet18").cuts.tensor == (1,)
    assert ModelFamily("resnet18").layers is None
