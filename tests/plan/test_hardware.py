import pytest

from stoker.errors import UserError
from stoker.facts import gpus as facts
from stoker.facts.signals import links
from stoker.plan.hardware import find_gpu, find_link, gpu_rows, overhead, table


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("A100 80GB", "A100 SXM4 80GB"),
        ("h100", "H100 SXM5 80GB"),
        ("RTX4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("V100 16GB", "Tesla V100 SXM2 16GB"),
        ("2080Ti", "GeForce RTX 2080 Ti"),
        ("H100 80GB PCIe Gen5", "H100 PCIe 80GB"),
        ("H100 96GB", "H100 SXM5 96GB HBM2e 500W"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
    ],
)
def test_names_as_people_write_them(asked, name):
    assert find_gpu(asked).name == name


def test_every_name_finds_itself():
    for gpu in gpu_rows():
        assert find_gpu(gpu.name) is gpu


@pytest.mark.parametrize(
    ("asked", "said"),
    [("GTX 1080", "did you mean GeForce GTX 1080 Ti"), ("RTX 6000", "can be RTX A6000, RTX 6000 Ada: name one")],
)
def test_another_card_is_not_planned_instead(asked, said):
    with pytest.raises(UserError, match=said):
        find_gpu(asked)


def test_unknown_names_are_a_mistake_of_the_user():
    with pytest.raises(UserError, match="no GPU"):
        find_gpu("Voodoo 2")
    with pytest.raises(UserError, match="no link"):
        find_link("string and cans")


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [("ib-400", "node", "between the GPUs of a node"), ("pcie4", "network", "no link 'pcie4' between nodes")],
)
def test_a_link_has_its_place(name, kind, said):
    assert find_link(name, "network" if kind == "node" else "node").name == name
    with pytest.raises(UserError, match=said):
        find_link(name, kind)


@pytest.mark.parametrize("name", ["gpus", "links", "efficiency", "overheads", "reached"])
def test_every_row_has_a_source(name):
    assert all(row["source"].strip() for row in table(name))


def test_every_gpu_is_complete():
    for gpu in gpu_rows():
        assert gpu.memory_gib > 1
        assert gpu.bandwidth > 1e10
        assert find_link(gpu.fabric).bandwidth > 0
        for quantity in ("gemm", "memory", "attention", "attention_backward", "launch_us"):
            fraction = gpu.reached(quantity)
            assert fraction.low <= fraction.value <= fraction.high


def test_constants_are_read():
    assert 0.8 < overhead("fits_below") < 1


def test_figures_come_from_the_facts():
    known = {gpu.model: gpu for gpu in facts.gpus()}
    a100 = find_gpu("A100 SXM4 80GB")
    assert a100.bandwidth == known[a100.name].memory_bandwidth_gb_s * 1e9
    assert a100.flops["bfloat16"] == known[a100.name].bf16_tflops * 1e12
    assert find_gpu("MI300X").capability == (9, 4)
    for row in table("gpus"):
        assert (row["variant_of"] or row["name"]) in known
        # a figure of its own is for variants only: all others would repeat the facts
        own = [row[column] for column in ("memory_gb", "bandwidth_gbs", "fp16_tflops", "tdp_w")]
        assert any(own) == bool(row["variant_of"])


def test_links_agree_with_the_facts():
    known = {link.link: link for link in links()}
    compared = 0
    for row in table("links"):
        if not row["fact"]:
            continue
        fact = known[row["fact"]]
        assert 0.95 * fact.measured_low_gb_s <= float(row["gbs_all_reduce"]) <= 1.05 * fact.measured_high_gb_s, row
        assert float(row["gbs"]) <= fact.one_way_gb_s
        compared += 1
    assert compared >= 10
