import pytest

from stoker.plan.measured import Measured, Timed
from stoker.plan.trace.log import Cost, Op, Phase


def op(
    name: str,
    kind: str,
    *,
    flops: float = 0.0,
    nbytes: float = 0.0,
    shape: tuple[int, ...] = (),
    phase: Phase = "forward",
) -> Op:
    cost = Cost(kind, flops, nbytes / 2, nbytes / 2, "float32", 1, shape)  # pyright: ignore[reportArgumentType]
    return Op(name, cost, 0, phase, 0, 0)


ADD = [
    Timed("aten.add", "elementwise", 1.0, size, (), seconds)
    for size, seconds in ((1e3, 1e-6), (1e5, 1e-5), (1e7, 1e-2))
]
MM = [
    Timed("aten.mm", "gemm", 1e6, 1e3, (128, 64, 64, 1), 1e-4),
    Timed("aten.mm", "gemm", 1e9, 1e6, (1024, 512, 1024, 1), 1e-2),
]


def test_time_over_bytes_goes_through_what_was_measured() -> None:
    priced = Measured(ADD)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e5)) == pytest.approx(1e-5)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e4)) == pytest.approx(10**-5.5)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=10)) == pytest.approx(1e-6)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e8)) == pytest.approx(1e-1)


def test_an_operator_that_was_not_timed_is_priced_as_its_kind() -> None:
    priced = Measured([*ADD, Timed("aten.sum", "reduction", 1.0, 1e5, (), 3e-5)])
    assert priced.seconds(op("aten.sub", "elementwise", nbytes=1e5)) == pytest.approx(1e-5)
    assert priced.seconds(op("aten.amax", "reduction", nbytes=1e5)) == pytest.approx(3e-5)
    assert priced.seconds(op("aten.sort", "gather", nbytes=1e5)) == pytest.approx(1e-5)


def test_products_take_the_rate_of_the_shapes_nearby() -> None:
    priced = Measured(MM)
    near = priced.seconds(op("aten.mm", "gemm", flops=2e9, nbytes=2e6, shape=(2048, 512, 1024, 1)))
    assert near == pytest.approx(2e-2, rel=0.2)
    small = priced.seconds(op("aten.mm", "gemm", flops=1e6, nbytes=1e3, shape=(128, 64, 64, 1)))
    assert small == pytest.approx(1e-4, rel=0.2)


def test_what_is_around_an_operator_depends_on_the_phase() -> None:
    priced = Measured(ADD, {"forward": 5e-6, "optimizer": 1e-6})
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e5)) == pytest.approx(1.5e-5)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e5, phase="backward")) == pytest.approx(1.5e-5)
    assert priced.seconds(op("aten.add", "elementwise", nbytes=1e5, phase="optimizer")) == pytest.approx(1.1e-5)
