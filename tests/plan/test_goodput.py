import math

import pytest

from stoker.plan.goodput import goodput


def test_a_checkpoint_holds_weights_and_states():
    assert goodput(10**9, 2, 8).checkpoint_gib == pytest.approx(12e9 / 2**30)


def test_the_interval_is_that_of_young_and_daly():
    plan = goodput(10**10, 2, 1024, storage_gbs=2.0)
    assert plan.interval_seconds == pytest.approx(math.sqrt(2 * plan.save_seconds * plan.hours_between_failures * 3600))


def test_more_gpus_fail_more_often():
    shares = [goodput(10**10, 2, gpus).share for gpus in (8, 64, 1024, 4096)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.99


def test_a_given_failure_rate_replaces_the_published_one():
    rare = goodput(10**10, 2, 64, gpu_hours=1_000_000)
    assert rare.hours_between_failures == pytest.approx(1_000_000 / 64)
    assert rare.share > goodput(10**10, 2, 64).share
