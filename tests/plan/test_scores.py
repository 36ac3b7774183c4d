"""How the benchmark of accuracy counts: what is near enough, what is not, and how its tables reach a page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGE = BENCHMARKS.parent / "docs" / "explanation" / "how-the-planner-works.md"


@pytest.fixture(scope="module", autouse=True)
def benchmarks():
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def scored(
    gpus=8, published="100", planned=100.0, memory="", error=None, verdict="fits", unit="tokens/s/GPU", **fields
):
    from plan_rows import Case
    from plan_scores import Scored

    row = {
        "source": "pytorch/torchtitan", "model": "Llama3.1-8B", "hardware": "H100", "precision": "bf16", "ac": "none",
        "seq_or_res": "8192", "parallelism": f"FSDP2-{gpus}", "n_gpus": str(gpus), "unit": unit,
        "throughput": published, "peak_mem_gib": memory, **fields,
    }  # fmt: skip
    return Scored(row, Case(), verdict, 10.0, error, "ran" in memory, planned, planned / float(published))


def by_name(rows):
    from plan_scores import figures

    return {figure.name: figure for figure in figures(rows, total=10)}


def test_shares_and_false_verdicts():
    rows = [
        scored(memory="10", error=0.04),
        scored(memory="10", error=-0.06, verdict="does not fit"),
        scored(memory="<= 80 (ran)", verdict="does not fit", planned=130.0),
        scored(memory="<= 80 (ran)", planned=80.0),
        scored(gpus=16, planned=500.0),  # more than one node: no part of the rates
    ]
    found = by_name(rows)
    assert found["memory within 5 %"].value == 0.5
    assert found["false does-not-fit"].value == 2
    assert found["false does-not-fit"].met is False
    assert found["ran rows fit"].value == 0.5
    assert found["throughput within 25 %"].value == 0.75
    assert found["rows in scope"].value == 5
    assert [row.missed for row in rows] == [False, True, True, False, False]


def test_scaling_is_counted_from_the_smallest_of_rows_that_are_alike():
    from plan_scores import scaling

    rows = [
        scored(gpus=8, published="100", planned=110.0),
        scored(gpus=64, published="90", planned=104.5),  # 95 % planned, 90 % published
        scored(gpus=128, published="80", planned=88.0),  # 80 % both
        scored(gpus=128, published="50", planned=88.0, model="another"),  # nothing to compare with
    ]
    assert [(one.gpus, round(off, 6)) for one, off in scaling(rows)] == [(64, 5.0), (128, 0.0)]
    assert by_name(rows)["scaling within 5 points"].value == 1.0


def test_rates_of_all_gpus_are_compared_per_gpu():
    from plan_scores import scaling

    rows = [
        scored(gpus=n, published=str(n * 10), planned=n * 10.0, unit="images/s", parallelism="DDP") for n in (4, 16)
    ]
    assert [off for _, off in scaling(rows)] == [0.0]


def test_a_table_of_the_page_is_replaced_and_nothing_else(tmp_path):
    from common import replace_tables

    page = tmp_path / "page.md"
    page.write_text(PAGE.read_text())
    for name in ("published rows by group", "published memory", "planned and measured on a CPU"):
        replace_tables(page, {name: ["| new |", "|---|"]})
        once = page.read_text()
        replace_tables(page, {name: ["| new |", "|---|"]})
        assert page.read_text() == once
    assert once.count("| new |") == 3
    with pytest.raises(ValueError, match="has no <!-- table: unknown -->"):
        replace_tables(page, {"unknown": []})


ROW = {
    "source": "pytorch/torchtitan", "model": "Llama3.1-8B", "hardware": "H100-SXM", "n_gpus": "16",
    "interconnect": "NVLink", "precision": "bf16", "parallelism": "FSDP2-16", "ac": "none", "global_batch": "32",
    "seq_or_res": "8192", "unit": "tokens/s/GPU", "notes": "",
}  # fmt: skip
"""A row of the validation table that is in scope."""


@pytest.mark.parametrize(
    ("said", "link"),
    [
        ("NVLink+1600G-RoCE/node", "roce-200"), ("NVLink+400G-RDMA/GPU", "ib-400"), ("NVLink+8x200G-IB", "ib-200"),
        ("NVLink+IB/RoCE", "ib-400"), ("NVLink", "ib-400"),
    ],
)  # fmt: skip
def test_the_network_of_a_row(said, link):
    from plan_rows import read_case

    assert read_case({**ROW, "interconnect": said}).network == link


@pytest.mark.parametrize(
    ("precision", "changes"),
    [
        ("fp16-amp", {"precision": "fp16-pure", "optimizer": "adamw"}),
        ("fp32", {"precision": "tf32", "optimizer": "adamw-loop"}),
    ],
)
def test_how_lambda_ran_its_rows(precision, changes):
    """Through the host's memory, whatever the interconnect column infers from the board."""
    from plan_rows import read_case

    row = {
        "source": "lambdal/deeplearning-benchmark pytorch/x.csv", "model": "bert_large_squad",
        "hardware": "A100 80GB SXM4", "n_gpus": "2", "interconnect": "NVLink/NVSwitch", "precision": precision,
        "parallelism": "DDP-2", "global_batch": "128", "seq_or_res": "384", "unit": "sequences/s",
    }  # fmt: skip
    case = read_case({**ROW, **row})
    assert (case.peers, case.layout, case.micro_batch) == (False, "ddp=2", 64)
    assert changes.items() <= case.changes.items()


@pytest.mark.parametrize(
    ("source", "model", "library", "target"),
    [
        ("huggingface/pytorch-image-models", "resnet50d", "timm", "resnet50d"),
        ("lambdal/deeplearning-benchmark", "resnet50", "torchvision", "resnet50"),
        ("hpcaitech/ColossalAI", "torchvision/convnext_small", "torchvision", "convnext_small"),
    ],
)
def test_models_of_images_come_from_the_library_of_their_row(source, model, library, target):
    from plan_rows import OutOfScopeError, read_case

    row = {
        **ROW, "source": source, "model": model, "hardware": "RTX3090-24GB", "n_gpus": "1", "interconnect": "-",
        "precision": "fp16-amp channels_last", "parallelism": "single", "global_batch": "64", "seq_or_res": "224",
        "unit": "images/s",
    }  # fmt: skip
    case = read_case(row)
    assert (case.library, case.target, case.micro_batch) == (library, target, 64)
    assert case.changes["channels_last"]
    with pytest.raises(OutOfScopeError, match=f"resnet50x is neither in {library}"):
        read_case({**row, "model": "resnet50x"})


def test_attention_of_timm_is_planned_as_it_ran():
    import torch
    from plan_accuracy import from_timm

    made = from_timm("vit_tiny_patch16_224", 2, 224)
    assert made.batch(2)[0].shape == (2, 3, 224, 224)
    with torch.device("meta"):
        model = made.build(None)
    assert not model.blocks[0].attn.fused_attn
