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


MIB = 1 << 20


@pytest.mark.parametrize(
    ("link", "ranks", "mib", "published"),
    [
        ("nvlink3", 8, 4, 72.3), ("nvlink3", 8, 16, 106.2), ("nvlink3", 8, 64, 171.5), ("nvlink3", 8, 256, 194.1),
        ("nvlink3", 8, 1024, 229.0), ("nvlink3", 8, 16384, 234.9), ("nvlink5", 8, 16, 255.0),
        ("nvlink5", 8, 64, 400.6), ("nvlink5", 8, 256, 646.1), ("nvlink5", 8, 1024, 723.3),
        ("nvlink5", 8, 16384, 845.7), ("nvlink5", 32, 64, 156.7), ("nvlink5", 32, 256, 229.1),
        ("nvlink5", 32, 1024, 362.0), ("nvlink5", 32, 4096, 377.3), ("nvlink5", 32, 16384, 381.8),
    ],
)  # fmt: skip
def test_published_sweeps_of_all_reduce(link, ranks, mib, published):
    """GB/s of 8 A100, 8 B200 and 32 B200 over EFA (stas00/ml-engineering network/README.md)."""
    planned = bus_bandwidth("all_reduce", mib * MIB, ranks, network(link, "efa-400"))
    assert planned == pytest.approx(published, rel=0.25)


def test_more_bytes_take_longer_and_nodes_cost():
    net = network()
    assert seconds("all_reduce", 2 * GIB, 8, 1, net) > seconds("all_reduce", GIB, 8, 1, net)
    assert seconds("all_gather", GIB, 16, 1, net) > seconds("all_gather", GIB, 8, 1, net)


def test_one_rank_talks_to_nobody():
    assert seconds("all_reduce", GIB, 1, 1, network()) == 0.0


def test_a_group_with_a_stride_of_a_node_lies_across_nodes():
    net = network()
    assert seconds("all_reduce", GIB, 8, 8, net) > 3 * seconds("all_reduce", GIB, 8, 1, net)


def test_latency_grows_with_every_rank_of_a_ring_and_with_the_depth_of_a_tree():
    net = network()  # 3.4 us inside a node, 14 us between nodes
    assert seconds("all_gather", 1, 16, 1, net) == pytest.approx((14 * 3.4 + 14) * 1e-6, rel=1e-3)
    assert seconds("reduce_scatter", 1, 512, 1, net) == pytest.approx((448 * 3.4 + 63 * 14) * 1e-6, rel=1e-3)
    assert seconds("all_reduce", 1, 128, 1, net) == pytest.approx(2 * (7 * 3.4 + 4 * 14) * 1e-6, rel=1e-3)
    assert seconds("all_reduce", 1, 2, 1, net) == pytest.approx(2 * 3.4e-6, rel=1e-3)
