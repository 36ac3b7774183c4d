"""Data rate and tiers, by hand."""

from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.plan.topology.plan import plan_topology
from stoker.plan.topology.read import find_server
from stoker.plan.topology.storage import Data, constant, plan_storage, read_data

DGX = find_server("DGX A100")
IMAGENET = Data(gb=140, bytes_per_sample=110_000, samples_per_second=16_000, epochs=90)


def states(plan):
    return {finding.cause: finding.state for finding in plan.findings}


def test_rates_by_hand():
    plan = plan_storage(DGX, 2, IMAGENET)
    assert IMAGENET.gb_s == pytest.approx(1.76)  # 16,000 x 110,000 bytes
    assert plan.per_server_gb_s == pytest.approx(0.88)
    assert plan.per_gpu_gb_s == pytest.approx(0.11)
    assert plan.hours == pytest.approx(140 * 90 / 1.76 / 3600)
    assert plan.read_tb == pytest.approx(12.6)


def test_tiers_by_hand():
    nvme, ceph, s3 = plan_storage(DGX, 2, IMAGENET).tiers
    assert nvme.raw_tb == pytest.approx(0.140 / 0.8)
    assert nvme.read_gb_s == pytest.approx(0.88 * 1.25)
    assert ceph.raw_tb == pytest.approx(0.140 * 3 / 0.85)
    assert ceph.read_gb_s == pytest.approx(1.76 * 1.25)
    assert s3.raw_tb == pytest.approx(0.140 * 16 / 12 / 0.85, rel=1e-4)
    assert s3.read_gb_s == pytest.approx(140 / 86400)


@pytest.mark.parametrize(("servers", "share"), [(1, 1), (2, 1 + 1 / 2 + 1 / 4), (4, 1 + 3 / 4 + 9 / 16)])
def test_what_comes_from_ceph_over_three_epochs(servers, share):
    """A server has not yet read a sample after e epochs with probability (1 - 1/servers)^e."""
    plan = plan_storage(DGX, servers, Data(gb=100, bytes_per_sample=1e6, samples_per_second=10, epochs=3))
    assert plan.from_warm_tb == pytest.approx(0.1 * share)


def test_data_that_the_drives_do_not_hold_keeps_coming_from_ceph():
    """8 x 3.84 TB at 80 % hold 24.6 TB: a third of 73.7 TB."""
    plan = plan_storage(DGX, 1, Data(gb=73_728, bytes_per_sample=1e6, samples_per_second=1000, epochs=2))
    assert plan.tiers[0].holds_gb == pytest.approx(24_576)
    assert plan.from_warm_tb == pytest.approx(73.728 * (1 + 2 / 3))
    assert states(plan)["storage.nvme_size"] == "warn"
    assert plan.nvme_drives == 24


def test_drives_that_are_too_slow_fail():
    plan = plan_storage(DGX, 1, Data(gb=100, bytes_per_sample=1e6, samples_per_second=50_000, epochs=2))
    assert states(plan)["storage.nvme_rate"] == "fail"  # 62.5 of 8 x 6.5 = 52 GB/s
    assert states(plan)["storage.network"] == "warn"  # 62.5 of 31.5 GB/s
    assert plan.nvme_drives == 10


def test_a_server_without_drives_is_told_how_many_it_needs():
    plan = plan_storage(find_server("8 x RTX 4090"), 1, IMAGENET)
    assert states(plan) == {"storage.drives": "unknown", "storage.network": "unknown"}
    assert plan.nvme_drives == 1


def test_enough_is_said_too():
    assert states(plan_storage(DGX, 1, IMAGENET)) == {"storage.network": "ok"}


@pytest.mark.parametrize(
    "given",
    [
        {"samples": 1_000_000, "bytes_per_sample": 100_000.0},
        {"dataset_gb": 100.0, "samples": 1_000_000},
        {"dataset_gb": 100.0, "bytes_per_sample": 100_000.0},
        {"dataset_gb": 100.0, "samples": 1_000_000, "bytes_per_sample": 100_000.0},
    ],
)
def test_two_sizes_give_the_third(given):
    empty = {"dataset_gb": None, "samples": None, "bytes_per_sample": None}
    data = read_data(**(empty | given), samples_per_second=10.0, epochs=1)
    assert data == Data(gb=100, bytes_per_sample=100_000, samples_per_second=10, epochs=1)


def test_what_is_missing_or_contradicts_is_said():
    with pytest.raises(UserError) as error:
        read_data(dataset_gb=1.0, samples=None, bytes_per_sample=None, samples_per_second=None, epochs=1)
    assert len(error.value.mistakes) == 2
    with pytest.raises(UserError, match="is 1 GB, --dataset-gb says 2"):
        read_data(dataset_gb=2.0, samples=1000, bytes_per_sample=1e6, samples_per_second=1.0, epochs=1)
    nothing = {"dataset_gb": None, "samples": None, "bytes_per_sample": None, "samples_per_second": None}
    assert read_data(**nothing, epochs=1) is None
    with pytest.raises(UserError, match="--epochs is how often"):
        read_data(**nothing, epochs=5)


def test_storage_is_part_of_the_plan():
    plan = plan_topology(DGX, servers=2, data=IMAGENET)
    assert plan.to_json()["storage"]["tiers"][1]["name"] == "Ceph"
    assert constant("object_overhead") == pytest.approx(16 / 12, rel=1e-4)
