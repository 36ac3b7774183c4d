import pytest

from stoker.errors import UserError
from stoker.plan.hardware import find_gpu, find_link, gpu_rows, overhead, table


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("A100 80GB", "A100 SXM4 80GB"),
        ("h100", "H100 SXM5 80GB"),
        ("RTX4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        ("V100 16GB", "Tesla V100 SXM2 16GB"),
    ],
)
def test_names_as_people_write_them(asked, name):
    assert find_gpu(asked).name == name


def test_unknown_names_are_a_mistake_of_the_user():
    with pytest.raises(UserError, match="no GPU"):
        find_gpu("Voodoo 2")
    with pytest.raises(UserError, match="no link"):
        find_link("string and cans")


@pytest.mark.parametrize("name", ["gpus", "links", "efficiency", "overheads"])
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
