from __future__ import annotations

import json

import pytest

from stoker.errors import UserError
from stoker.forecast.run import forecast, is_run_file, run_layout
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import Layout


def test_a_forecast_is_written_and_read(loaded) -> None:
    found = forecast(loaded(), find_gpu("RTX 4090"), 2)
    data = json.loads(json.dumps(found.to_json()))
    assert (data["format"], data["kind"], data["processes"], data["layout"]) == (1, "gpu", 2, "ddp=2")
    step = data["speed"]["step_seconds"]
    assert 0 < step["low"] <= step["expected"] <= step["high"]
    assert data["memory"]["verdict"] == "fits"
    assert "fits: " in str(found)
    assert "step " in str(found)


def test_what_cannot_be_traced_has_no_step_time(loaded, run_file) -> None:
    task = run_file.parent / "points.py"
    task.write_text(task.read_text().replace("return x + self.inner(x)", "return x + self.inner(x) * float(x.sum())"))
    found = forecast(loaded(), find_gpu("RTX 4090"), 1)
    assert found.speed is None
    assert "value decides" in found.why_no_speed
    assert found.to_json()["speed"] is None
    assert "the step time is unknown" in str(found)


@pytest.mark.parametrize(
    ("strategy", "count", "asked", "layout"),
    [("auto", 4, "", Layout(replicate=4)), ("auto", None, "", Layout()), ("single", 1, "", Layout()),
     ("ddp", 8, "fsdp2", Layout(shard=8))],
)  # fmt: skip
def test_layout(loaded, strategy, count, asked, layout) -> None:
    assert run_layout(loaded(f"parallel.strategy={strategy}").spec, count, asked) == layout


@pytest.mark.parametrize(("strategy", "says"), [("single", "for one process"), ("dp", "is not planned")])
def test_strategies_that_are_refused(loaded, strategy, says) -> None:
    with pytest.raises(UserError, match=says):
        run_layout(loaded(f"parallel.strategy={strategy}").spec, 2)


def test_run_files_are_known_by_their_name() -> None:
    assert is_run_file("a/run.yaml")
    assert is_run_file("run.yml")
    assert not is_run_file("config.json")
    assert not is_run_file("resnet50")
