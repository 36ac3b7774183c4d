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
        ("1_0_ steps", 10, "steps"),
        (" 7 EPOCHS ", 7, "epochs"),
        ("30 seconds", 30, "seconds"),
        ("1 second", 1, "seconds"),
        ("1 minute", 60, "seconds"),
        ("1 hour", 3600, "seconds"),
        ("1 day", 86400, "seconds"),
        ("1 token", 1, "tokens"),
        ("2.5e-1 days", 21600, "seconds"),
        ("1.5 tokens", 1.5, "tokens"),
        ("0 steps", 0, "steps"),
        (Quantity(3, "steps"), 3, "steps"),
        ("5 %", 5, "percent"),
        ("5 percent", 5, "percent"),
        ("never", 0, "never"),
        (False, 0, "never"),
        (0, 0, "steps"),
    ],
)
def test_what_people_write(text: object, amount: float, unit: str) -> None:
    assert Quantity.parse(text) == Quantity(amount, unit)  # pyright: ignore[reportArgumentType]


REFUSED = [
    "", "epochs", "20", "20 epoks", "-3 steps", "1 2 steps", None, [], "2.5 steps", True, 1.5, "1e999 steps",
    "never 3", "1 %%", "_1 steps", b"1 step", "1 step\n2",
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
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


@given(text=st.text() | st.from_regex(r"[0-9._eE+-]{1,6} ?(steps|epochs|hours|tokens|%|x)"))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert quantity.amount >= 0
        assert Quantity.parse(str(quantity)) == quantity
