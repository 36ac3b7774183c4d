"""A file of one's own: what is wrong in it comes back in sentences, all at once."""

from __future__ import annotations

import pytest

from stoker.errors import UserError
from stoker.plan.topology.plan import plan_topology
from stoker.plan.topology.read import find_server, parse_server

GOOD = """
name = "our box"
gpu = "RTX 4090"
gpus = 2

[[uplink]]
name = "slot 1"
pcie_gen = 4
gpus = [0]

[[uplink]]
name = "slot 2"
pcie_gen = 4
lanes = 8
gpus = [1]
nics = ["eth0"]

[[nic]]
name = "eth0"
gbit_s = 25
"""


def mistakes(text):
    with pytest.raises(UserError) as error:
        parse_server(text, "box.toml")
    return [str(mistake) for mistake in error.value.mistakes]


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "box.toml"
    path.write_text(GOOD)
    plan = plan_topology(find_server(str(path)))
    assert plan.server.name == "our box"
    assert plan.path(0, 1).kind == "NODE"
    assert [ports.nics for ports in plan.ports] == [("eth0",)] * 2


@pytest.mark.parametrize(
    ("change", "to", "sentence"),
    [
        ("gpus = [1]", "gpus = [2]", "GPU 1 stands below 0 uplinks: name it in the `gpus` of exactly one"),
        ("gpus = [1]", "gpus = [2]", "GPU 2 stands below an uplink, but there are 2: count them from 0"),
        ("gpus = [1]", "gpus = [0, 1]", "GPU 0 stands below 2 uplinks"),
        ("pcie_gen = 4\ngpus", "pcie_gen = 7\ngpus", "uplink slot 1: pcie_gen 7 is not known, write one of 3, 4, 5, 6"),
        ("pcie_gen = 4\ngpus", "pcie_gen = 4\nsocket = 1\ngpus", "uplink slot 1: socket 1 of 1, count them from 0"),
        ('nics = ["eth0"]', 'nics = ["eth1"]', "an uplink has the nic 'eth1', which no [[nic]] describes"),
        ("RTX 4090", "RTX 4091", "gpu: no GPU is known as 'RTX 4091': did you mean GeForce RTX 4090"),
        ('"slot 2"', '"slot 1"', "uplink slot 1 is described 2 times: names must differ"),
        ("lanes = 8", "lanes = 0", "uplink 2, lanes: input should be greater than or equal to 1, not 0"),
        ("lanes = 8", "width = 8", "uplink 2, width: there is no such key"),
        ('name = "our box"', "", "name: this key is missing"),
        ("gpus = 2", "gpus = 2\n[processors]\nsockets = 2", "processors: link '' is not known, write one of inter-CPU"),
        ("gpus = 2", "gpus = 2\n[fabric]\nlinks_per_gpu = 4", "fabric: the GeForce RTX 4090 has no link between GPUs"),
        ("gpus = 2", "gpus = 2\n[fabric]\nlinks_per_gpu = 4", "fabric: write either `switches` or `pairs`"),
        ("gpus = 2", "gpus = = 2", "this is no TOML"),
    ],
)
def test_a_mistake_is_a_sentence_with_its_place(change, to, sentence):
    assert change in GOOD
    assert any(sentence in found for found in mistakes(GOOD.replace(change, to, 1)))


def test_pairs_use_no_more_links_than_there_are():
    text = GOOD.replace("RTX 4090", "A100 PCIe 80GB").replace(
        "gpus = 2",
        "gpus = 2\n[fabric]\nlinks_per_gpu = 12\npairs = [{gpus = [0, 1], links = 16}, {gpus = [0, 5], links = 1}]",
    )
    found = mistakes(text)
    assert "box.toml: fabric: the pairs of GPU 0 use 17 links of 12" in found
    assert "box.toml: fabric: the pair [0, 5] is not of two of the 2 GPUs" in found


def test_a_card_that_the_file_names_is_not_named_again(tmp_path):
    path = tmp_path / "box.toml"
    path.write_text(GOOD)
    for name in (str(path), "DGX A100"):
        with pytest.raises(UserError, match="leave --gpu out"):
            find_server(name, "L4")


def test_all_mistakes_come_at_once():
    assert len(mistakes(GOOD.replace("gpus = [1]", "gpus = [0]").replace('"eth0"]', '"eth1"]'))) >= 3


def test_an_unknown_name_gets_the_nearest_and_all():
    with pytest.raises(UserError, match=r"'dgx a101' is neither a file nor a known server: did you mean DGX A100\?"):
        find_server("dgx a101")
