from __future__ import annotations

import pytest
import yaml

from stoker.errors import UserError
from stoker.forecast.request import Options
from stoker.forecast.search import (
    RunFamily,
    read_hours,
    read_places,
    read_prices,
    read_task,
    run_file_text,
    samples_of,
    winning_spec,
)
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout
from stoker.plan.search.outcome import Found, Goal
from stoker.plan.search.space import Servers, Shape
from stoker.train.spec import load_spec
from tests.plan.search.options import option

GOAL = Goal(64, 1000.0)


def task(target, *overrides, options=None, **given):
    wanted = dict.fromkeys(("global_batch", "tokens", "samples", "deadline")) | given
    return read_task(str(target), overrides, options or Options(), places=(), **wanted)


def test_the_winning_spec_is_one_that_train_reads(run_file, loaded) -> None:
    best = option(layout=Layout(shard=8), hours=1.0)
    plain = option(layout=Layout(replicate=8), hours=2.0, shape=Shape("full", 4, 2, "bf16"))
    fields, chosen = winning_spec(loaded("optimizer.lr=0.5"), Found((best, plain), 2, ()), GOAL)
    assert chosen is plain
    written = run_file.parent / "best.yaml"
    written.write_text(run_file_text(fields, chosen))
    spec = load_spec(written).spec
    assert (spec.batch.global_size, spec.batch.micro_size) == (64, 4)
    assert spec.parallel.strategy == "ddp"
    assert spec.memory.activation_checkpointing == "full"
    assert spec.precision == "bf16"
    assert spec.optimizer.lr == 0.5
    assert written.read_text().startswith("# Written by `stoker plan search`")
    assert "ddp=8" in written.read_text()


def test_nothing_is_written_where_nothing_that_train_can_run_fits(loaded) -> None:
    sharded = option(layout=Layout(shard=8))
    too_large = option(layout=Layout(replicate=8), verdict="does not fit")
    with pytest.raises(UserError, match="neither fits"):
        winning_spec(loaded(), Found((sharded, too_large), 2, ()), GOAL)


def test_the_run_file_says_batch_and_work(run_file) -> None:
    found = task(run_file)
    assert found.goal == Goal(64, 512.0)  # two epochs of 256 samples
    assert isinstance(found.family, RunFamily)
    assert task(run_file, samples=100.0).goal.samples == 100
    with pytest.raises(UserError, match=r"batch\.global_size=32"):
        task(run_file, global_batch=32)


def test_durations_in_time_say_nothing_of_samples(loaded) -> None:
    assert samples_of(loaded("duration=10 steps")) == 640
    with pytest.raises(UserError, match="--samples"):
        samples_of(loaded("duration=2 hours"))


def test_a_run_in_each_shape(loaded) -> None:
    source = RunFamily(loaded()).source(Layout(replicate=4), Shape("full", 8, 2, "bf16"))
    assert source.changes == {"accumulation": 2}
    spec = source.arguments["spec"]
    assert (spec["batch"]["micro_size"], spec["precision"]) == (8, "bf16")
    assert spec["memory"]["activation_checkpointing"] == "full"
    assert source.arguments["world_size"] == 4


def test_places_and_prices() -> None:
    places = read_places(["H100 SXM", "A100 80GB", "h100 sxm"], servers=6, per_server=8, network="ib-400",
                         prices=["H100 SXM=2.5"], several=True)  # fmt: skip
    assert [place.count for place in places] == [1, 1, 2, 2, 4, 4, 6, 6]
    assert {(place.gpu.name, place.price) for place in places} == {
        (find_gpu("H100 SXM").name, 2.5), (find_gpu("A100 80GB").name, None),
    }  # fmt: skip
    assert places[0] == Servers(find_gpu("H100 SXM"), 1, 8, "ib-400", 2.5)
    with pytest.raises(UserError, match="is no price"):
        read_prices(["H100 SXM=cheap"])


def test_deadlines() -> None:
    assert read_hours("2 days") == 48
    assert read_hours(None) is None
    with pytest.raises(UserError, match="30 days"):
        read_hours("soon")


def test_written_fields_hold_no_defaults(loaded) -> None:
    fields, chosen = winning_spec(loaded(), Found((option(layout=Layout(replicate=8)),), 1, ()), GOAL)
    assert set(yaml.safe_load(run_file_text(fields, chosen))) == {
        "task", "duration", "batch", "parallel", "memory", "precision",
    }  # fmt: skip
