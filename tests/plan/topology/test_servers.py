"""The servers that come with stoker say what their documents say."""

from __future__ import annotations

import pytest

from stoker.facts.gpus import find_gpu
from stoker.facts.servers import servers as powered
from stoker.facts.signals import links
from stoker.plan.hardware import table
from stoker.plan.topology.plan import plan_topology
from stoker.plan.topology.read import find_server, known_servers


def plan(name):
    return plan_topology(find_server(name))


def test_dgx_a100_as_its_guide_says():
    """DU-09821-001: six NVSwitches, 600 GB/s GPU to GPU; eight single-port 200 Gb/s cards and a dual-port one."""
    found = plan("DGX A100")
    assert found.server.fabric.switches == 6
    assert found.fabric.theory * 2 == 600
    assert {path.kind for path in found.paths} == {"NV12"}
    cluster = [nic for nic in found.server.nics if nic.use == "cluster"]
    assert [nic.gbit_s for nic in cluster] == [200] * 8
    assert len(found.server.nics) - len(cluster) == 2
    assert found.server.drives.count * found.server.drives.tb == pytest.approx(30, abs=1)  # 30 TB
    assert [ports.gb_s for ports in found.ports] == [25] * 8  # one 200 Gb/s port for each GPU


def test_dgx_a100_as_its_topology_shows():
    """NCCL issue 1505: two GPUs and two ports below a switch; NUMA 3, 1, 7 and 5."""
    found = plan("DGX A100")
    assert [found.server.uplink_of(number).numa for number in range(8)] == [3, 3, 1, 1, 7, 7, 5, 5]
    assert [ports.nics for ports in found.ports][::2] == [
        ("mlx5_0", "mlx5_1"), ("mlx5_2", "mlx5_3"), ("mlx5_6", "mlx5_7"), ("mlx5_8", "mlx5_9"),
    ]  # fmt: skip
    assert {ports.nearness for ports in found.ports} == {"switch"}
    assert found.hosts[0].alone_gb_s == 24
    assert found.hosts[0].all_gb_s == 12


@pytest.mark.parametrize("name", ["DGX H100", "DGX H200"])
def test_dgx_h100_and_h200_as_their_guide_says(name):
    """Tables 1 and 6: 900 GB/s GPU to GPU, four NVSwitches, a 400 Gb/s port for each GPU, two dual-port cards."""
    found = plan(name)
    assert found.server.fabric.switches == 4
    assert found.fabric.theory * 2 == 900
    assert {path.kind for path in found.paths} == {"NV18"}
    table_6 = {0: "mlx5_0", 1: "mlx5_3", 2: "mlx5_4", 3: "mlx5_5", 4: "mlx5_6", 5: "mlx5_9", 6: "mlx5_10", 7: "mlx5_11"}
    assert {ports.gpu: ports.nics for ports in found.ports} == {gpu: (nic,) for gpu, nic in table_6.items()}
    assert [ports.gb_s for ports in found.ports] == [50] * 8
    assert [found.server.uplink_of(number).socket for number in range(8)] == [0] * 4 + [1] * 4  # Network Module/CPU
    assert [nic.gbit_s for nic in found.server.nics if nic.use == "storage"] == [400] * 4
    assert found.server.drives.count * found.server.drives.tb == pytest.approx(30.72)


def test_eight_4090_have_neither_nvlink_nor_peer_to_peer():
    """nccl-tests issue 307: four cards below a switch of each processor; NCCL issue 1309: the switch does not help."""
    found = plan("8 x RTX 4090")
    assert found.fabric is None
    assert {path.way for path in found.paths} == {"host memory"}
    assert found.path(0, 3).kind == "PIX"
    assert found.path(0, 4).kind == "SYS"
    assert found.path(0, 1).expected_gb_s == pytest.approx(25.8 / 2)  # measured both ways without peer to peer
    assert found.path(0, 4).expected_gb_s == 10  # what NCCL counts between the processors of this server
    assert found.ring_gb_s == 24 / 4  # four streams go up each switch
    states = {finding.cause: finding.state for finding in found.findings}
    assert states["topology.no_p2p"] == "warn"
    assert states["topology.far_port"] == "warn"
    assert [ports.nearness for ports in found.ports] == ["switch"] * 4 + ["far"] * 4
    assert {ports.gb_s for ports in found.ports} == {None}  # the source does not say how fast the port is


def test_four_a100_pcie_as_the_product_brief_says():
    """PB-10137-001: three bridges, 600 GB/s, to one neighbour, both cards below one processor."""
    found = plan("4 x A100 PCIe")
    assert found.path(0, 1).theory_gb_s * 2 == found.path(2, 3).theory_gb_s * 2 == 600
    assert found.path(0, 1).kind == "NV12"
    assert found.path(1, 2).way == "PCIe"
    assert found.path(1, 2).expected_gb_s == 16  # NCCL's planning value between two EPYC
    assert found.ring_gb_s == 16  # the ring crosses the processors: the bridges do not help a ring of four
    assert not [finding for finding in found.findings if finding.state != "info"]


@pytest.mark.parametrize("name", known_servers())
def test_every_part_has_a_source_that_is_written_out(name):
    server = known_servers()[name]
    parts = [server.processors, *server.uplinks, *server.nics, *filter(None, (server.fabric, server.drives))]
    assert [part for part in parts if part.source not in server.sources] == []
    assert all("http" in source for source in server.sources.values())


@pytest.mark.parametrize("name", ["paths", "storage"])
def test_every_row_has_a_source(name):
    assert all(row["source"].strip() for row in table(name))


def test_topology_power_and_gpu_tables_agree():
    for server in known_servers().values():
        gpu = find_gpu(server.gpu)
        assert server.gpu == gpu.model
        for row in powered():
            if row.server == server.name:
                assert (row.gpu, row.gpus) == (server.gpu, server.gpus)
        for uplink in server.uplinks:
            assert not uplink.gpus or uplink.pcie_gen == gpu.pcie_gen


def test_paths_agree_with_links_and_gpus():
    """What a path reaches is no more than its theory; the theory is that of links.csv and gpus.csv."""
    theories = {link.one_way_gb_s for link in links()}
    for row in table("paths"):
        assert float(row["reached_gb_s"]) < float(row["theory_gb_s"])
        assert float(row["theory_gb_s"]) in theories, row["path"]


@pytest.mark.parametrize(("name", "measured"), [("DGX A100", 235), ("DGX H100", 370)])
def test_a_ring_through_switches_is_as_fast_as_measured(name, measured):
    """Bus bandwidth of all-reduce in rings: links.csv, rows of A100 and H100 with NVSwitch."""
    assert plan(name).ring_gb_s == pytest.approx(measured, rel=0.05)
