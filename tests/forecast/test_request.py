from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.forecast.request import Options, read_sources, resolve
from stoker.plan.hardware import find_gpu
from stoker.plan.layout import parse_layout


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


def test_products_in_eight_bits_need_a_card_that_has_them() -> None:
    assert ask("vit_b_16", precision="fp8").source.changes["precision"] == "fp8"
    for gpu in ("A100", "RTX 3090"):
        with pytest.raises(UserError, match=r"no products in float8 are known of .*: write bf16"):
            ask("vit_b_16", precision="fp8", gpu=gpu)


def test_a_run_file_is_a_source_for_any_device(run_file) -> None:
    old, new = find_gpu("V100 SXM2 32GB"), find_gpu("H100 SXM")
    sources, what = read_sources(str(run_file), Options(), [old, new])
    assert what == f"{run_file}: precision auto"
    assert [sources(gpu, parse_layout("ddp=2")).arguments["capability"] for gpu in (old, new)] == [(7, 0), (9, 0)]
    with pytest.raises(UserError, match=r"write precision=\.\.\. instead"):
        read_sources(str(run_file), Options(precision="bf16"), [new])


def test_a_model_says_how_it_is_run() -> None:
    sources, what = read_sources("resnet18", Options(micro_batch=8), [find_gpu("L4")])
    assert what == "resnet18: bf16, 8 samples per card and pass, checkpointing none"
    assert sources(find_gpu("L4"), parse_layout("single")).arguments["micro_batch"] == 8
