"""Servers from what `nvidia-smi topo -m` prints. The matrices here are made up in its form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.errors import UserError
from stoker.plan.topology.plan import plan_topology
from stoker.plan.topology.read import find_server, known_servers
from stoker.plan.topology.smi import looks_like_topo, parse_topo, read_topo


def matrix(devices, kind_of, numa_of, legend=()):
    """The text of a matrix, with tabs as nvidia-smi prints it and its header underlined."""
    head = "\t".join(["", *devices, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"])
    lines = [f"\x1b[4m{head}\x1b[0m"]
    for one in devices:
        row = [one, *(" X " if one == other else kind_of(one, other) for other in devices)]
        if one.startswith("GPU"):
            row += ["0-23,48-71", str(numa_of(one)), "N/A"]
        lines.append("\t".join(row))
    lines += ["", "Legend:", "", "  X    = Self", "", "NIC Legend:", ""]
    return "\n".join([*lines, *(f"  {name}: {device}" for name, device in legend)])


def by_pairs(*pairs, otherwise="SYS"):
    kinds = {frozenset(pair): kind for pair, kind in pairs}
    return lambda one, other: kinds.get(frozenset((one, other)), otherwise)


def test_switches_are_found_by_the_cards_and_by_a_shared_port():
    """NVLink hides how near two GPUs are over PCIe; the port that is PXB to both shows it."""
    devices = ["GPU0", "GPU1", "GPU2", "GPU3", "NIC0", "NIC1"]
    nvlink = [((f"GPU{a}", f"GPU{b}"), "NV12") for a in range(4) for b in range(a)]
    near = [(("GPU0", "NIC0"), "PXB"), (("GPU1", "NIC0"), "PXB"), (("GPU2", "NIC1"), "PIX")]
    text = matrix(devices, by_pairs(*nvlink, *near), lambda gpu: 3 if gpu < "GPU2" else 7, [("NIC0", "mlx5_4")])
    server = read_topo(text, gpu="A100 SXM4 80GB", name="pasted")
    assert [(uplink.gpus, uplink.nics, uplink.numa) for uplink in server.uplinks] == [
        ((0, 1), ("mlx5_4",), 3), ((2,), ("NIC1",), 7), ((3,), (), 7),
    ]  # fmt: skip
    assert server.fabric.switches == 1  # 12 links to each of three peers are more than a GPU has
    assert server.processors.sockets == 2


def test_direct_links_and_bridges_are_told_from_switches():
    four = ["GPU0", "GPU1", "GPU2", "GPU3"]
    mesh = read_topo(matrix(four, lambda one, other: "NV4", lambda gpu: 0), gpu="A100 SXM4 40GB", name="m")
    assert mesh.fabric.switches == 0
    assert len(mesh.fabric.pairs) == 6
    assert plan_topology(mesh).path(0, 3).theory_gb_s == 100  # four of twelve links: NVIDIA/nccl-tests issue 331
    bridged = by_pairs((("GPU0", "GPU1"), "NV4"), (("GPU2", "GPU3"), "NV12"), otherwise="NODE")
    pairs = read_topo(matrix(four, bridged, lambda gpu: 0), gpu="A100 PCIe 80GB", name="b")
    assert [(pair.gpus, pair.links) for pair in pairs.fabric.pairs] == [((0, 1), 4), ((2, 3), 12)]
    causes = [finding.cause for finding in plan_topology(pairs).findings]
    assert causes.count("topology.bridge_missing") == 1  # GPUs 0 and 1 have one bridge of three


def test_the_server_with_eight_4090_comes_out_as_its_file_has_it():
    known = known_servers()["8 x RTX 4090"]
    devices = [f"GPU{number}" for number in range(8)] + ["NIC0"]

    def half(device):
        return "0" if device == "NIC0" else str(int(device[3:]) // 4)

    text = matrix(
        devices, lambda a, b: "PIX" if half(a) == half(b) else "SYS", lambda gpu: half(gpu), [("NIC0", "mlx5_bond_0")]
    )
    read = read_topo(text, gpu="RTX 4090", name="pasted")
    mine, theirs = (plan_topology(server) for server in (read, known))
    assert mine.paths == theirs.paths
    assert mine.ports == theirs.ports
    assert mine.ring_gb_s == theirs.ring_gb_s


def test_a_port_far_from_all_is_not_placed():
    text = matrix(["GPU0", "NIC0"], lambda one, other: "SYS", lambda gpu: 0)
    server = read_topo(text, gpu="RTX 4090", name="x")
    assert server.uplink_of_nic("NIC0") is None
    assert plan_topology(server).ports[0].nearness == "far"


def test_a_file_is_told_by_its_matrix(tmp_path):
    path = tmp_path / "node7.txt"
    path.write_text("$ nvidia-smi topo -m\n" + matrix(["GPU0", "GPU1"], lambda one, other: "PHB", lambda gpu: 0))
    assert find_server(str(path), "RTX 4090").name == "node7"
    with pytest.raises(UserError, match="does not name the GPUs: give --gpu"):
        find_server(str(path))


def test_a_row_that_is_cut_is_named_with_its_line():
    text = matrix(["GPU0", "GPU1", "GPU2"], lambda one, other: "SYS", lambda gpu: 0)
    cut = "\n".join(line[:12] if line.startswith("GPU1") else line for line in text.splitlines())
    with pytest.raises(UserError, match=r"pasted:3: the row of GPU1 has not 3 of X, NV#, PIX"):
        parse_topo(cut, "pasted")
    without = "\n".join(line for line in text.splitlines() if not line.startswith("GPU2"))
    with pytest.raises(UserError, match="the row of GPU2 is missing"):
        parse_topo(without, "pasted")


@given(st.text(max_size=200))
def test_any_text_is_either_a_matrix_or_none(text):
    if not looks_like_topo(text):
        with pytest.raises(UserError, match="no matrix"):
            parse_topo(text, "x")
