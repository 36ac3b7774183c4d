"""What operators cost, beside published timings of them."""

from __future__ import annotations

import pytest

from stoker.plan.hardware import find_gpu
from stoker.plan.roofline import Roofline, tile_share
from stoker.plan.trace.log import Cost, Op

GPU = find_gpu("A100 80GB")


def product(rows: int, inner: int, columns: int, batch: int = 1) -> Op:
    """One of `batch` matrices in bf16."""
    flops = 2.0 * batch * rows * inner * columns
    read, written = 2.0 * batch * inner * (rows + columns), 2.0 * batch * rows * columns
    cost = Cost("gemm", flops, read, written, "bfloat16", 1, (rows, columns, inner, batch))
    return Op("aten.bmm", cost, 0, "forward", 0, 0)


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "batch", "published"),
    [
        (2048, 256, 2048, 64, 130.2),
        (2048, 2048, 256, 64, 219.0),
        (8192, 4096, 4096, 1, 234.9),
        (8192, 4096, 12288, 1, 241.6),
        (8192, 16384, 4096, 1, 252.8),
        (8192, 4096, 51200, 1, 255.4),
    ],
)
def test_products_of_a_transformer(rows: int, inner: int, columns: int, batch: int, published: float) -> None:
    """TFLOP/s on an A100 (EleutherAI/cookbook benchmarks/sizing/sample_results/transformer.out)."""
    one = product(rows, inner, columns, batch)
    assert one.cost.flops / Roofline(GPU).seconds(one) / 1e12 == pytest.approx(published, rel=0.17)


def test_a_large_product_runs_at_the_fraction_of_the_peak() -> None:
    took = Roofline(GPU).seconds(product(8192, 8192, 8192))
    assert took == pytest.approx(2 * 8192**3 / (312e12 * GPU.reached("gemm").value), rel=0.08)


def test_what_is_no_product_moves_and_counts_at_once() -> None:
    cost = Cost("elementwise", 1e9, 8e9, 4e9, "bfloat16", 1, ())
    took = Roofline(GPU).seconds(Op("aten.add", cost, 0, "forward", 0, 0))
    assert took == pytest.approx(12e9 / (GPU.bandwidth * GPU.reached("memory").value), rel=0.01)


def test_tiles_and_waves() -> None:
    assert tile_share((8192, 8192, 8192, 1), 108, "gemm") > 0.85
    assert tile_share((64, 64, 64, 1), 108, "gemm") < 0.05
