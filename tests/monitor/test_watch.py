from __future__ import annotations

import math

import pytest

from stoker.monitor.model import Disk, Host, Interface
from stoker.monitor.watch import HOST, Key, Watch
from tests.monitor.samples import gpu, machine, run


def host(idle: float, user: float, read: float = 0.0) -> Host:
    disk = Disk(device="nvme0n1", read_bytes=read, written_bytes=0, io_seconds=0)
    wires = [
        Interface(device=name, receive_bytes=10 * read, transmit_bytes=0, errors=0, dropped=0)
        for name in ("lo", "eth0")
    ]
    return Host(cpus=2, cpu_seconds={"idle": idle, "user": user}, disks=(disk,), interfaces=tuple(wires))


def test_nothing_is_known_before_the_first_sample() -> None:
    assert Watch().moment is None


def test_rates_are_of_the_time_between_two_samples() -> None:
    watch = Watch()
    watch.take(machine(gpu(pcie_receive_bytes=1e9)), 100)
    assert watch.moment is not None
    assert watch.moment.rates == {}
    watch.take(machine(gpu(pcie_receive_bytes=6e9)), 105)
    assert watch.moment.rates == {Key("gpu:GPU-0", "pcie_receive_rate"): 1e9}


def test_a_reading_that_is_seen_twice_keeps_its_rate() -> None:
    """The driver is asked every 5 s, a little after the first look and a little before the third."""
    watch = Watch()
    for now, age, received in ((0, 4.9, 0.0), (5, 4.95, 5e9), (10, 5.0, 10e9), (15, 9.95, 10e9), (20, 5.0, 20e9)):
        watch.take(machine(gpu(sample_age_seconds=age, pcie_receive_bytes=received)), now)
        assert watch.moment is not None
        if now:
            assert watch.moment.rates[Key("gpu:GPU-0", "pcie_receive_rate")] == pytest.approx(1e9, rel=0.02)


def test_a_counter_that_began_again_has_no_rate() -> None:
    watch = Watch()
    watch.take(machine(gpu(pcie_receive_bytes=6e9)), 0)
    watch.take(machine(gpu(pcie_receive_bytes=1e9)), 5)
    assert watch.moment is not None
    assert watch.moment.rates == {}


def test_the_host_is_read_less_often_and_counts_its_own_time() -> None:
    """10 s pass on two CPUs, which were at work for 5 s of 20; the loopback is no network."""
    watch = Watch()
    for now, known in ((0, host(0, 0)), (5, host(15, 5, read=1e7)), (10, host(15, 5, read=1e7))):
        watch.take(machine(host=known), now)
        assert watch.moment is not None
    rates = watch.moment.rates
    assert rates[Key(HOST, "cpu_ratio")] == pytest.approx(0.25)
    assert rates[Key(HOST, "disk_read_rate")] == pytest.approx(1e6)
    assert rates[Key(HOST, "network_receive_rate")] == pytest.approx(1e7)
    assert Key(HOST, "infiniband_receive_rate") not in rates


def test_what_was_not_measured_is_a_gap_in_the_history() -> None:
    watch = Watch()
    watch.take(machine(gpu(power_watts=None), runs=(run(loss=math.nan),)), 0)
    assert watch.moment is not None
    assert all(map(math.isnan, watch.moment.history.values(Key("gpu:GPU-0", "power_watts"))))
    assert all(map(math.isnan, watch.moment.history.values(Key("run:/runs/a", "loss"))))
    assert watch.moment.history.values(Key("gpu:GPU-0", "utilization_ratio"))[-1] == 0.97
