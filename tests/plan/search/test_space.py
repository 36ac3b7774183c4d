from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout
from stoker.plan.search.space import Cuts, fewest_seconds, layouts, shapes, state_bytes

WIDE = Cuts((1, 2, 4, 8), 32)


def names(gpus, per_server=8, cuts=WIDE):
    return [str(layout) for layout in layouts(gpus, per_server, cuts)]


def test_layouts_of_one_gpu_and_of_models_that_cannot_be_cut() -> None:
    assert names(1) == ["single"]
    assert names(8, cuts=Cuts()) == ["ddp=8", "fsdp2=8", "fsdp2=8,reshard=no"]


def test_layouts_of_servers() -> None:
    found = names(16)
    assert {"hsdp=2x8", "fsdp2=2,tp=8", "fsdp2=8,pp=2", "fsdp2=16", "tp=8,pp=2"} <= set(found)
    assert "fsdp2=4,tp=2,pp=2" not in found  # a pipeline comes once a tensor group fills the server
    assert len(found) == len(set(found))


@given(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 24]), st.sampled_from([1, 2, 4, 8]))
def test_every_layout_takes_every_gpu(gpus, per_server) -> None:
    for layout in layouts(gpus, per_server, WIDE):
        assert layout.ranks == gpus
        assert layout.tensor <= per_server


@given(st.integers(1, 64), st.integers(1, 2000))
def test_shapes_cover_the_batch(ranks, batch) -> None:
    found = shapes(Layout(replicate=ranks), batch)
    assert bool(found) == (batch >= ranks)
    for micro, accumulation in found:
        assert ranks * micro * (accumulation - 1) < batch <= ranks * micro * accumulation


def test_a_pipeline_needs_as_many_micro_batches_as_stages() -> None:
    assert shapes(Layout(pipeline=4), 8) == [(2, 4), (1, 8)]


def test_bounds() -> None:
    # Adam in fp32: 4 bytes each for weight, gradient and two moments
    assert state_bytes(Layout(shard=8), 8_000_000_000, 2, 4) == 16e9
    gpu = find_gpu("A100 SXM 80GB")
    best = 261.6e12  # reached.csv
    assert fewest_seconds(best, gpu, 1, "bf16") == pytest.approx(1.0)
    assert fewest_seconds(best, gpu, 8, "bf16") == pytest.approx(1 / 8)
