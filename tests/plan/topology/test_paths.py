"""Paths, shares and placement of servers made up for the purpose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.facts.gpus import find_gpu
from stoker.plan.topology import rates
from stoker.plan.topology.checks import check
from stoker.plan.topology.model import Drives, Fabric, Nic, Pair, Processors, Server, Uplink
from stoker.plan.topology.network import ports_of_gpus, total_gb_s
from stoker.plan.topology.paths import host_rates, path_between, ring_gb_s

A100 = find_gpu("A100 PCIe 80GB")
RTX_4090 = find_gpu("RTX 4090")
EPYC = Processors(sockets=2, link="inter-CPU link AMD EPYC")


def server(*uplinks, gpu=A100, nics=(), fabric=None, processors=EPYC, drives=None):
    count = sum(len(uplink.gpus) for uplink in uplinks)
    return Server(
        name="made up", gpu=gpu.model, gpus=count, processors=processors, uplinks=uplinks, nics=nics,
        fabric=fabric, drives=drives,
    )  # fmt: skip


def switch(name, *gpus, socket=0, nics=(), lanes=16):
    return Uplink(
        name=name, pcie_gen=4, lanes=lanes, switch=True, socket=socket, numa=socket, gpus=gpus, nics=tuple(nics)
    )


def slot(gpu, *, socket=0, lanes=16, gen=4):
    return Uplink(name=f"slot {gpu}", pcie_gen=gen, lanes=lanes, socket=socket, numa=socket, gpus=(gpu,))


def causes(made, gpu):
    return {finding.cause: finding.state for finding in check(made, gpu)}


def test_peers_below_a_switch_do_not_share_its_uplink():
    made = server(switch("a", 0, 1, 2, 3, lanes=8))
    assert path_between(made, A100, 0, 1).expected_gb_s == 24
    assert ring_gb_s(made, A100) == 24
    assert host_rates(made, A100)[0].alone_gb_s == 12
    assert host_rates(made, A100)[0].all_gb_s == 3


def test_without_peer_to_peer_they_do():
    made = server(switch("a", 0, 1, 2, 3), gpu=RTX_4090)
    assert ring_gb_s(made, RTX_4090) == 24 / 4


def test_streams_between_switches_share_what_joins_them():
    """One stream leaves each switch and one comes in, also where the numbers of the cards alternate."""
    one_socket = server(switch("a", 0, 1), switch("b", 2, 3))
    assert ring_gb_s(one_socket, A100) == 24
    two_sockets = server(switch("a", 0, 1), switch("b", 2, 3, socket=1))
    assert ring_gb_s(two_sockets, A100) == 16
    alternating = server(switch("a", 0, 2), switch("b", 1, 3, socket=1))
    assert ring_gb_s(alternating, A100) == 16


def test_a_ring_takes_the_bridges_that_there_are():
    """Pairs 0-2 and 1-3 on one processor: two of four streams take a bridge, two PCIe."""
    fabric = Fabric(links_per_gpu=12, pairs=(Pair(gpus=(0, 2), links=12), Pair(gpus=(1, 3), links=12)))
    made = server(*(slot(number) for number in range(4)), fabric=fabric)
    assert ring_gb_s(made, A100) == 24


def test_direct_links_to_several_others_count_together():
    """Four GPUs of which each has four links to each of the others: twelve links, as fast as through switches."""
    pairs = tuple(Pair(gpus=(a, b), links=4) for b in range(4) for a in range(b))
    made = server(*(slot(number) for number in range(4)), fabric=Fabric(links_per_gpu=12, pairs=pairs))
    assert path_between(made, A100, 0, 3).theory_gb_s == 100
    assert ring_gb_s(made, A100) == pytest.approx(230)


def test_a_narrow_slot_bounds_its_pairs_and_is_named():
    made = server(slot(0), slot(1, lanes=8))
    assert path_between(made, A100, 0, 1).theory_gb_s == pytest.approx(15.75)
    assert path_between(made, A100, 0, 1).expected_gb_s == 12
    assert causes(made, A100)["topology.slot"] == "warn"
    old = server(slot(0, gen=3), slot(1))
    assert path_between(old, A100, 0, 1).expected_gb_s == 12  # PCIe 3 x16
    assert causes(old, A100)["topology.slot"] == "warn"


def test_a_card_is_no_faster_than_itself_in_a_newer_slot():
    assert path_between(server(slot(0, gen=5), slot(1, gen=5)), A100, 0, 1).expected_gb_s == 24


@pytest.mark.parametrize(
    ("pairs", "socket", "cause"),
    [
        ([((0, 1), 12)], 1, "topology.bridge_across"),
        ([((0, 1), 4)], 0, "topology.bridge_missing"),
        ([], 0, "topology.unbridged"),
        ([((0, 1), 12)], 0, None),
    ],
)
def test_rules_of_bridges(pairs, socket, cause):
    """PB-10137-001: all three bridges, on a pair below one processor, wherever two cards are neighbours."""
    fabric = Fabric(links_per_gpu=12, pairs=tuple(Pair(gpus=g, links=n) for g, n in pairs)) if pairs else None
    made = server(slot(0), slot(1, socket=socket), fabric=fabric)
    found = {name for name, state in causes(made, A100).items() if state == "warn"}
    assert found == ({cause} if cause else set())


def test_a_single_bridge_gives_a_third():
    fabric = Fabric(links_per_gpu=12, pairs=(Pair(gpus=(0, 1), links=4),))
    assert path_between(server(slot(0), slot(1), fabric=fabric), A100, 0, 1).theory_gb_s == 100


def test_a_port_belongs_to_the_nearest_gpus_and_is_shared():
    nics = (Nic(name="near", gbit_s=100), Nic(name="far", gbit_s=400))
    made = server(switch("a", 0, 1, nics=["near"]), slot(2), switch("b", socket=1, nics=["far"]), nics=nics)
    ports = ports_of_gpus(made)
    assert [port.nics for port in ports] == [("near",)] * 3
    assert [port.nearness for port in ports] == ["switch", "switch", "numa"]
    assert ports[0].gb_s == pytest.approx(12.5 / 3)


def test_a_port_is_no_faster_than_its_slot():
    nics = (Nic(name="wide", gbit_s=400),)
    narrow = Uplink(name="x8", pcie_gen=4, lanes=8, nics=("wide",))
    assert total_gb_s(server(slot(0), narrow, nics=nics), "cluster") == pytest.approx(15.75)


def test_two_ports_of_one_storage_card_share_its_slot():
    nics = tuple(Nic(name=name, gbit_s=200, use="storage") for name in "ab")
    card = Uplink(name="card", pcie_gen=4, nics=("a", "b"))
    assert total_gb_s(server(slot(0), card, nics=nics), "storage") == pytest.approx(31.5)


def test_an_unknown_port_rate_is_not_zero():
    made = server(switch("a", 0, nics=["n"]), nics=(Nic(name="n"),), drives=Drives(count=1, tb=1))
    assert total_gb_s(made, "cluster") is None
    assert ports_of_gpus(made)[0].gb_s is None


def test_links_of_cards():
    """25 GB/s each way and link, but for the first and fifth generation and GA102."""
    expected = {
        "Tesla P100 SXM2 16GB": 4, "Tesla V100 SXM2 16GB": 6, "A100 SXM4 80GB": 12, "A100 PCIe 80GB": 12,
        "H100 SXM5 80GB": 18, "H100 NVL 94GB": 12, "B200 SXM 180GB": 18, "GeForce RTX 3090": 4, "A30": 4,
        "GeForce RTX 2080 Ti": 2,
    }  # fmt: skip
    assert {model: rates.fabric_links(find_gpu(model)) for model in expected} == expected


def test_pcie_reaches_a_share_of_its_theory():
    assert rates.pcie(5, 16).reached == 55
    assert rates.pcie(6, 16).reached == pytest.approx(121 * 55 / 63)  # not measured: as PCIe 5


@given(st.permutations(range(6)), st.integers(0, 6), st.booleans())
def test_a_ring_is_bound_by_what_it_has_to_cross(order, cut, below_switch):
    halves = [list(order[:cut]), list(order[cut:])]
    uplinks = [
        Uplink(name=f"u{i}", pcie_gen=4, switch=below_switch, socket=i, numa=i, gpus=tuple(half))
        for i, half in enumerate(halves)
        if half
    ]
    for gpu in (A100, RTX_4090):
        made = server(*uplinks, gpu=gpu)
        best = max(path_between(made, gpu, 0, number).expected_gb_s for number in range(1, 6))
        across = rates.socket_rate(EPYC.link) if len(uplinks) == 2 else best
        assert 0 < ring_gb_s(made, gpu) <= min(best, across)
