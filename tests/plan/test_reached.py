import pytest

from stoker.plan.hardware import find_gpu, table
from stoker.plan.reached import class_fraction, fraction, kept_up, measured, peak_of

PEAK = 312e12


def test_a_sustained_rate_counts_and_the_best_is_the_high_end():
    reached = fraction("A100 SXM4 80GB", "half", PEAK)
    assert (reached.value, reached.high) == pytest.approx((230 / 312, 261.6 / 312))
    assert reached.low == pytest.approx(0.95 * reached.value)
    assert "mli/transformers-benchmarks" in reached.source


def test_of_a_best_rate_the_median_share_is_kept_up():
    usual, least = kept_up()
    assert 0.6 < least < usual <= 1
    reached = fraction("A100 SXM4 40GB", "half", PEAK)
    assert (reached.low, reached.value, reached.high) == pytest.approx(
        [share * 247 / 312 for share in (least, usual, 1)]
    )


def test_an_unknown_card_reaches_what_the_median_of_its_class_does():
    members = {"A100 SXM4 80GB": PEAK, "A100 PCIe 80GB": PEAK, "A100 PCIe 40GB": PEAK, "nobody measured": PEAK}
    reached = class_fraction("half", members)
    assert reached.value == pytest.approx(kept_up()[0] * 237.8 / 312)
    assert reached.low < reached.value < reached.high
    assert reached.source == "median of 3 measured cards of the class (reached.csv)"
    assert class_fraction("half", {"nobody measured": PEAK}) is None
    assert find_gpu("A30").reached("gemm").source.startswith("median of")


def test_what_is_not_measured_is_not_made_up():
    assert fraction("A30", "half", PEAK) is None
    assert peak_of("A30", "half") is None
    assert peak_of("GeForce RTX 4090 D", "half") == 150.8e12


def test_tf32_goes_with_half_precision_where_only_that_was_measured():
    card = find_gpu("RTX 3090")
    assert card.reached("gemm_tf32") == card.reached("gemm")


def test_every_row_names_a_card_and_a_rate_that_its_peak_allows():
    """GeForce cards run above the clock of their data sheet, and by that above its peak."""
    names = {row["name"] for row in table("gpus")}
    for (name, kind), reached in measured().items():
        assert name in names
        assert reached.best or reached.sustained
        if reached.best and reached.sustained:
            assert reached.sustained < 1.05 * reached.best, (name, kind)
