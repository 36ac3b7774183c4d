from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.train.spec.quantity import Quantity


@pytest.mark.parametrize(
    ("text", "amount", "unit"),
    [
        ("20 epochs", 20, "epochs"),
        ("1 epoch", 1, "epochs"),
        ("500 steps", 500, "steps"),
        ("500steps", 500, "steps"),
        ("2 hours", 7200, "seconds"),
        ("1.5 minutes", 90, "seconds"),
        ("3 Days", 259200, "seconds"),
        ("3e9 tokens", 3e9, "tokens"),
        ("1_000 steps", 1000, "steps"),
        ("5 %", 5, "percent"),
        ("5 percent", 5, "percent"),
        ("never", 0, "never"),
        (False, 0, "never"),
        (0, 0, "steps"),
    ],
)
def test_what_people_write(text: object, amount: float, unit: str) -> None:
    assert Quantity.parse(text) == Quantity(amount, unit)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("text", ["", "epochs", "20", "20 epoks", "-3 steps", "1 2 steps", None, [], "2.5 steps", True])
def test_what_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"not understood|not a whole number"):
        Quantity.parse(text)


def test_units_that_a_field_does_not_take() -> None:
    with pytest.raises(ValueError, match="write '500 steps' or '20 epochs'"):
        Quantity.parse("2 hours", ("steps", "epochs"))


@given(amount=st.integers(0, 10**8), unit=st.sampled_from(["steps", "epochs", "tokens"]))
def test_written_and_read_again(amount: int, unit: str) -> None:
    quantity = Quantity(float(amount), unit)  # pyright: ignore[reportArgumentType]
    assert Quantity.parse(str(quantity)) == quantity


@given(seconds=st.floats(0, 1e9), unit=st.just("seconds"))
def test_times_are_written_and_read_again(seconds: float, unit: str) -> None:
    quantity = Quantity(seconds, unit)  # pyright: ignore[reportArgumentType]
    assert Quantity.parse(str(quantity)).amount == pytest.approx(seconds)
