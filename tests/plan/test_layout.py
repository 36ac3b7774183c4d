import pytest

from stoker.errors import UserError
from stoker.plan.layout import Layout, parse_layout


@pytest.mark.parametrize(
    ("text", "gpus", "layout"),
    [
        ("single", None, Layout()),
        ("ddp=8", 8, Layout(replicate=8)),
        ("ddp", 4, Layout(replicate=4)),
        ("fsdp2=8,tp=2", 16, Layout(shard=8, tensor=2)),
        ("fsdp2,tp=8,pp=4", 128, Layout(shard=4, tensor=8, pipeline=4)),
        ("hsdp=4x8", 32, Layout(replicate=4, shard=8)),
        ("pp=4,interleave=2", 4, Layout(pipeline=4, interleave=2, schedule="interleaved")),
        ("fsdp2=8,reshard=no", 8, Layout(shard=8, reshard=False)),
    ],
)
def test_layouts_are_read_and_written(text, gpus, layout):
    assert parse_layout(text, gpus) == layout
    assert parse_layout(str(layout)) == layout


@pytest.mark.parametrize("text", ["zero=3", "ddp=0", "ddp=2,fsdp2=2", "hsdp=4", "pp=2,schedule=zigzag", "tp=2,tp=4"])
def test_mistakes_are_named(text):
    with pytest.raises(UserError):
        parse_layout(text)


def test_the_product_must_be_the_number_of_gpus():
    with pytest.raises(UserError, match="takes 16 GPUs"):
        parse_layout("fsdp2=8,tp=2", 8)
