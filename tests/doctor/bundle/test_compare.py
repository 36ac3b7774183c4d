"""Which of several machines is the odd one out."""

from __future__ import annotations

from dataclasses import replace

from stoker.doctor.bundle.compare import UNSET, differences, judge
from stoker.host.probes.driver import Driver
from stoker.host.probes.gpus import Gpu, Gpus
from stoker.host.probes.network import Network, Port
from stoker.host.probes.python import Python, PythonEnvironment
from stoker.host.probes.services import Services
from stoker.host.probes.settings import Setting, Settings
from stoker.host.probes.system import System
from stoker.host.snapshot import Snapshot

GPUS = Gpus(devices=tuple(Gpu(index=n, name="NVIDIA H100", width=16, clock_sm_max_mhz=1980.0) for n in range(8)))
USUAL = Snapshot(
    system=System(os_name="Ubuntu 22.04", kernel="5.15.0-91-generic", cmdline="ro iommu=pt"),
    driver=Driver(loaded="570.86.15", flavour="open"),
    gpus=GPUS,
    network=Network(ports=(Port("mlx5_0", 1, state="ACTIVE", rate=400.0, layer="InfiniBand"),)),
    python=Python((PythonEnvironment(packages={"nvidia-nccl-cu12": "2.26.2", "torch": "2.8.0"}),)),
    settings=Settings((Setting("NCCL_SOCKET_IFNAME", "ens5", "environment"),)),
    services=Services(clock_synchronized=True),
)


def odd(other: Snapshot) -> list[tuple[str, tuple[str, ...]]]:
    found = differences({"a": USUAL, "b": USUAL, "c": other, "d": USUAL})
    return [(one.what, one.odd) for one in found]


def test_alike_machines_do_not_differ() -> None:
    assert odd(USUAL) == []


def test_each_difference_names_the_odd_machine() -> None:
    assert odd(replace(USUAL, driver=Driver(loaded="550.54.15", flavour="open"))) == [("driver", ("c",))]
    fewer = replace(USUAL, gpus=Gpus(devices=(*GPUS.devices[:7], replace(GPUS.devices[7], width=4))))
    assert odd(fewer) == [("PCIe width of the GPUs", ("c",))]
    down = replace(USUAL, network=Network(ports=(Port("mlx5_0", 1, state="DOWN", layer="InfiniBand"),)))
    assert odd(down) == [("RDMA port mlx5_0:1", ("c",))]
    packages = {"nvidia-nccl-cu12": "2.21.5", "torch": "2.8.0"}
    assert odd(replace(USUAL, python=Python((PythonEnvironment(packages=packages),)))) == [
        ("package nvidia-nccl-cu12", ("c",))
    ]
    slow = replace(USUAL, services=Services(clock_synchronized=True, clock_offset_s=-3.5))
    (clock,) = differences({"a": USUAL, "b": USUAL, "c": slow})
    assert str(clock) == "clock: c has off by -3.5 s, the 2 others have synchronised"


def test_a_variable_that_is_not_set_is_a_difference_and_one_that_is_unknown_is_none() -> None:
    unset = replace(USUAL, settings=Settings())
    (found,) = differences({"a": USUAL, "b": USUAL, "c": unset})
    assert found.values == {"a": "ens5", "b": "ens5", "c": UNSET}
    assert found.odd == ("c",)
    assert odd(replace(unset, unknown={"settings": "not in the copy"})) == []


def test_what_is_unknown_on_one_machine_is_no_difference() -> None:
    assert odd(Snapshot(unknown={"settings": "x"})) == []


def test_two_machines_differ_and_neither_is_the_rule() -> None:
    other = replace(USUAL, driver=Driver(loaded="550.54.15", flavour="open"))
    found = differences({"a": USUAL, "b": other})
    assert str(found[0]) == "driver: a has 570.86.15; b has 550.54.15"
    (finding,) = judge(found, "en")
    assert finding.cause == "nodes-differ"


def test_the_oddest_machine_comes_first() -> None:
    kernel = replace(USUAL, system=replace(USUAL.system, kernel="6.8.0"))
    worse = replace(USUAL, driver=Driver(loaded="550.54.15", flavour="proprietary"), settings=Settings())
    findings = judge(differences({"a": USUAL, "b": kernel, "c": worse, "d": USUAL, "e": USUAL}), "zh")
    assert [(one.cause, one.evidence[0].source, len(one.evidence)) for one in findings] == [
        ("node-differs-from-the-others", "c", 3),
        ("node-differs-from-the-others", "b", 1),
    ]
