"""Traffic between GPUs: peer-to-peer, NVLink, what ACS and the IOMMU do to it, sockets, and the way to the network."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, unsure, warn
from stoker.doctor.checks.fabric import has_nvswitch
from stoker.doctor.checks.lookup import PCI_LIST, bare_metal, is_geforce, model_of
from stoker.finding import Evidence
from stoker.host.probes.links import P2P_WORDS, NvLink
from stoker.host.probes.pci import bridges_above
from stoker.host.snapshot import Snapshot

_NEAR = ("PIX", "PXB")


def p2p_over_pcie(machine: Snapshot) -> bool | None:
    """Whether the driver lets these cards reach each other over PCIe; None if no table says."""
    known = [model.p2p_over_pcie for gpu in machine.gpus.devices if (model := model_of(machine, gpu))]
    if any(is_geforce(gpu) for gpu in machine.gpus.devices) or False in known:
        return False
    return True if known and all(known) else None


@check("p2p", needs=("gpus", "links.p2p_read"))
def p2p(machine: Snapshot) -> Iterator[Found]:
    """GPUs joined by NVLink must read each other's memory; over PCIe it depends on the card."""
    matrix, topology = machine.links.p2p_read, machine.links.topology
    if matrix is None:
        return
    ways = topology.pairs() if topology else {}
    refused = {pair: state for pair, state in matrix.pairs().items() if state not in ("OK", "X", "U")}
    nvlink = [pair for pair in refused if ways.get(pair, "").startswith("NV")]
    if nvlink:
        yield fail(
            "nvlink-p2p-refused",
            f"{len(nvlink)} pairs of GPUs are joined by NVLink and cannot read each other.",
            *_cells(refused, nvlink),
        )
    others = [pair for pair in refused if pair not in nvlink]
    if not others:
        return
    if p2p_over_pcie(machine) is False:
        yield info(
            "geforce-without-p2p",
            "These cards do not reach each other over PCIe; traffic goes through main memory.",
            *_cells(refused, others[:1]),
        )
    else:
        states = sorted({P2P_WORDS.get(refused[pair], refused[pair]) for pair in others})
        yield warn(
            "p2p-refused",
            f"{len(others)} pairs of GPUs cannot read each other: {', '.join(states)}.",
            *_cells(refused, others),
        )


def _cells(states: dict[tuple[str, str], str], pairs: list[tuple[str, str]]) -> list[Evidence]:
    return [seen("nvidia-smi topo -p2p r", f"{one} - {other}: {states[one, other]}") for one, other in pairs[:3]]


@check("acs", needs=("card",))
def acs(machine: Snapshot) -> Iterator[Found]:
    """On bare metal, ACS of the bridges above the cards sends peer-to-peer traffic up to the root."""
    cards = machine.pci.gpus()
    if len(cards) + len(machine.pci.of("nic")) < 2 or not cards:
        yield fine("There is one PCIe device to speak of, so no traffic between peers.")
        return
    if not bare_metal(machine):
        yield fine("In a virtual machine ACS is the host's business.")
        return
    above = {bridge.address: bridge for card in cards for bridge in bridges_above(machine.pci, card)}
    if not above:
        yield unsure("the bridges above the GPUs cannot be seen")
    elif all(bridge.redirects is None for bridge in above.values()):
        yield unsure("`lspci -vv` does not show ACS: only root may read it")
    else:
        redirecting = [bridge for bridge in above.values() if bridge.redirects]
        if redirecting and p2p_over_pcie(machine) is not False:
            yield warn(
                "p2p-broken-by-iommu-acs",
                f"ACS is on at {len(redirecting)} bridges above the GPUs.",
                *(seen("lspci -vv", f"{bridge.address}: ACSCtl: ReqRedir+") for bridge in redirecting[:4]),
            )


@check("iommu", needs=("card", "pci.iommu"))
def iommu(machine: Snapshot) -> Iterator[Found]:
    """An IOMMU that translates addresses slows peer-to-peer down or breaks it; pass-through does not."""
    if not machine.pci.iommu or not bare_metal(machine):
        yield fine(
            "No IOMMU translates here." if bare_metal(machine) else "In a virtual machine it is the host's business."
        )
        return
    translating = [kind for kind in machine.pci.iommu_types if kind.startswith("DMA")]
    several = len(machine.pci.gpus()) > 1
    if translating and several and p2p_over_pcie(machine) is not False:
        yield warn(
            "iommu-translates",
            "The IOMMU translates the addresses of the GPUs.",
            seen("/sys/kernel/iommu_groups/*/type", ", ".join(machine.pci.iommu_types)),
            seen("/proc/cmdline", machine.system.cmdline),
        )


@check("sockets", needs=("gpus", "links.topology"))
def sockets(machine: Snapshot) -> Iterator[Found]:
    """Without NVLink, traffic between GPUs on different sockets crosses the link between the processors."""
    topology = machine.links.topology
    pairs = topology.pairs() if topology else {}
    far = [pair for pair, way in pairs.items() if way in ("SYS", "SOC")]
    if far:
        yield info(
            "gpu-pair-spans-sockets",
            f"{len(far)} of {len(pairs)} pairs of GPUs reach each other only over the link between the sockets.",
            *(seen("nvidia-smi topo -m", f"{one} - {other}: {pairs[one, other]}") for one, other in far[:2]),
        )


@check("nvlink", needs=("gpu", "links.nvlinks"))
def nvlink(machine: Snapshot) -> Iterator[Found]:
    """All links of a card are up, or, on a card without a bridge, none; behind NVSwitches all must be up."""
    links = machine.links.nvlinks
    if not links:
        yield fine("No GPU here has NVLink.")
        return
    by_gpu: dict[int, list[NvLink]] = {}
    for link in links:
        by_gpu.setdefault(link.gpu, []).append(link)
    for gpu, mine in by_gpu.items():
        down = [link for link in mine if link.speed_gb_s is None]
        if down and (len(down) < len(mine) or has_nvswitch(machine)):
            yield fail(
                "nvlink-links-inactive",
                f"{len(down)} of {len(mine)} NVLinks of GPU {gpu} are down.",
                *(seen("nvidia-smi nvlink -s", f"GPU {gpu}: Link {link.link}: <inactive>") for link in down[:4]),
                gpu=str(gpu),
            )


@check("nvlink-errors", needs=("gpu", "links.nvlinks"))
def nvlink_errors(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """Links that repeat and recover work, but slowly, and tell of a bad contact."""
    for link in machine.links.nvlinks:
        counted = {name: count for name, count in (link.errors or {}).items() if count > limits["errors"]}
        if counted:
            text = ", ".join(f"{name}: {count}" for name, count in counted.items())
            yield warn(
                "nvlink-errors",
                f"NVLink {link.link} of GPU {link.gpu} has errors.",
                seen("nvidia-smi nvlink -e", f"GPU {link.gpu}: Link {link.link}: {text}"),
                gpu=str(link.gpu),
            )


@check("gpu-nic", needs=("gpu",))
def gpu_nic(machine: Snapshot) -> Iterator[Found]:
    """Each GPU of a machine with several RDMA cards has one near it, under the same PCIe switch or root."""
    matrix = machine.links.topology
    rows = matrix.rows if matrix and matrix.rows else {}
    gpus = [name for name in rows if name.startswith("GPU")]
    nics = [name for name in next(iter(rows.values()), {}) if not name.startswith("GPU")]
    if not machine.network.ports:
        yield fine("There is no RDMA card here.")
        return
    if not rows:
        yield unsure(machine.why_unknown("links.topology") or "the matrix of `nvidia-smi topo -m` is empty")
        return
    far = [gpu for gpu in gpus if not any(rows[gpu].get(nic) in (*_NEAR, "PHB", "NODE") for nic in nics)]
    if far and len(nics) > 1:
        yield warn(
            "gpu-far-from-nic",
            f"{len(far)} of {len(gpus)} GPUs have no RDMA card on their socket.",
            *(
                seen("nvidia-smi topo -m", f"{gpu}: " + ", ".join(f"{nic} {rows[gpu].get(nic)}" for nic in nics[:4]))
                for gpu in far[:2]
            ),
        )


@check("numa", needs=("card",))
def numa(machine: Snapshot) -> Iterator[Found]:
    """On a machine of several NUMA nodes the firmware must say to which one each GPU belongs."""
    if len(machine.cpu.nodes) < 2:
        yield fine("There is one NUMA node.")
        return
    homeless = [card for card in machine.pci.gpus() if card.numa is None]
    if homeless and bare_metal(machine):
        yield warn(
            "gpu-without-numa-node",
            f"{len(homeless)} GPUs belong to no NUMA node.",
            *(seen(f"{PCI_LIST}/{card.address}/numa_node", "-1") for card in homeless[:2]),
        )
