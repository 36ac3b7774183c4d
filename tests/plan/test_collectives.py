import pytest

from stoker.plan.collectives import Network, seconds
from stoker.plan.hardware import find_link

GIB = 1 << 30


def network(node="nvlink3", between="ib-200"):
    return Network(find_link(node), find_link(between))


def bus_bandwidth(op, nbytes, ranks, net):
    factor = 2 * (ranks - 1) / ranks if op == "all_reduce" else (ranks - 1) / ranks
    return factor * nbytes / seconds(op, nbytes, ranks, 1, net) / 1e9


def test_large_messages_reach_the_bandwidth_of_the_link():
    assert bus_bandwidth("all_reduce", 16 * GIB, 8, network()) == pytest.approx(235, rel=0.02)
    assert bus_bandwidth("all_gather", 16 * GIB, 8, network("nvlink4")) == pytest.approx(365, rel=0.02)


def test_mid_sizes_reach_less():
    # published for 8 A100: 171.5 GB/s at 64 MiB
    assert bus_bandwidth("all_reduce", 64 << 20, 8, network()) == pytest.approx(171.5, rel=0.25)


def test_more_bytes_take_longer_and_nodes_cost():
    net = network()
    assert seconds("all_reduce", 2 * GIB, 8, 1, net) > seconds("all_reduce", GIB, 8, 1, net)
    assert seconds("all_gather", GIB, 16, 1, net) > seconds("all_gather", GIB, 8, 1, net)


def test_one_rank_talks_to_nobody():
    assert seconds("all_reduce", GIB, 1, 1, network()) == 0.0


def test_a_group_with_a_stride_of_a_node_lies_across_nodes():
    net = network()
    assert seconds("all_reduce", GIB, 8, 8, net) > 3 * seconds("all_reduce", GIB, 8, 1, net)
