from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.forecast.request import Options, resolve


def ask(target, *overrides, gpu="H100 SXM", gpus=None, layout="", **options):
    return resolve(str(target), overrides, Options(**options), gpu=gpu, gpus=gpus, layout=layout)


def test_a_run_file_with_overrides(run_file) -> None:
    planned = ask(run_file, "batch.micro_size=4", gpus=8)
    assert planned.source.factory == "stoker.forecast.workload:run_workload"
    assert planned.source.arguments["spec"]["batch"] == {"global_size": 64, "micro_size": 4}
    assert planned.source.arguments["world_size"] == 8
    assert str(planned.layout) == "ddp=8"


def test_anything_else_takes_options() -> None:
    planned = ask("resnet18", gpus=2, precision="fp16", micro_batch=32)
    assert planned.source.factory == "stoker.plan.workload:load_workload"
    assert planned.source.arguments["micro_batch"] == 32
    assert planned.source.changes == {"precision": "fp16", "checkpointing": "none", "accumulation": 1}
    assert str(planned.layout) == "fsdp2=2"


def test_options_that_a_run_file_decides_name_its_field(run_file) -> None:
    with pytest.raises(UserError) as caught:
        ask(run_file, precision="bf16", micro_batch=4)
    assert [mistake.where for mistake in caught.value.mistakes] == ["--precision", "--micro-batch"]
    assert "batch.micro_size=" in str(caught.value)


def test_all_mistakes_at_once() -> None:
    with pytest.raises(UserError) as caught:
        ask("resnet18", "seed=3", precision="fp17", optimizer="adamm")
    assert [mistake.where for mistake in caught.value.mistakes] == ["command line", "--precision", "--optimizer"]
