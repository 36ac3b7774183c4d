"""The matrix of `nvidia-smi topo -m`: which cards reach each other how."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from stoker.doctor.reasoning import Facts, Verdict, verdict
from stoker.doctor.scanning import Hit

NO_P2P_MODELS = re.compile(
    r"(?:RTX )?(?:20[678]0|30[5-9]0|40[5-9]0|50[5-9]0)(?: ?Ti| SUPER)?\b|GeForce (?:RTX|GTX)", re.I
)
"""GeForce cards since Turing: their driver offers no PCIe peer-to-peer (NVIDIA/nccl-tests#117)."""

_SLOW = r"slow|half|bandwidth|speed|performance|latency|faster"
_HANG = r"hang|hung|stuck|freez|deadlock|wrong|iommu|vt-d|\bacs\b|p2p_disable"
_SWITCH = {"PIX", "PXB"}


@dataclass
class Matrix:
    """Links between GPUs and from NICs to GPUs, as far as the paste shows them.

    Attributes:
        links: By pair of GPU numbers, smaller first.
        nic_links: By NIC name, the link to each GPU.
        affinities: The CPU list of each GPU.
        rows: The lines it was read from.
    """

    links: dict[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])
    nic_links: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    affinities: dict[int, str] = field(default_factory=dict[int, str])
    rows: list[Hit] = field(default_factory=list[Hit])


def read_matrix(hits: list[Hit]) -> Matrix:
    """Read the rows; a second matrix in the same log overwrites the first."""
    matrix = Matrix()
    gpu_rows = [hit for hit in hits if hit["name"].startswith("GPU")]
    count = sum(1 for cell in gpu_rows[0]["cells"].split() if cell) if gpu_rows else 0
    names = len({hit["name"] for hit in gpu_rows})
    for hit in hits:
        cells = hit["cells"].split()
        if hit["name"].startswith("GPU"):
            own = int(hit["name"][3:])
            for other, link in enumerate(cells[: max(names, min(count, own + 1))]):
                if other != own and link != "X":
                    matrix.links[min(own, other), max(own, other)] = link
            affinity = re.match(r"\s*(\d[\d,-]*)", hit["rest"])
            if affinity:
                matrix.affinities[own] = affinity[1]
        else:
            matrix.nic_links[hit["name"]] = cells[:names]
        matrix.rows.append(hit)
    return matrix


def judge_topology(facts: Facts) -> Iterator[Verdict]:
    """Cards without P2P behind a switch, jobs across sockets, near NICs that are not used directly."""
    rows = facts.hits("topology_row")
    if not rows:
        return
    matrix = read_matrix(rows)
    links = set(matrix.links.values())
    behind_switch = bool(links & _SWITCH)
    if behind_switch and _without_p2p(facts) and not facts.said(_HANG):
        models = [hit for hit in facts.hits("gpu_model") if NO_P2P_MODELS.search(hit["model"])]
        context = facts.context if NO_P2P_MODELS.search(facts.context) else ""
        yield verdict("geforce-no-p2p-behind-pcie-switch", 0.82, rows[:2], models[:1], context=context)
    sockets = len(set(matrix.affinities.values()))
    if links == {"SYS"} and sockets > 1 and not facts.said(_HANG):
        slow = facts.said(_SLOW + r"|socket|numa")
        if slow or len(matrix.affinities) > 2:
            yield verdict("gpu-pair-spans-sockets", 0.85 if slow else 0.62, rows, context=facts.context if slow else "")
    near = [name for name, cells in matrix.nic_links.items() if _SWITCH & set(cells)]
    channels = facts.hits("nccl_channel_ib")
    if near and channels and not facts.has("nccl_gdr_channel"):
        shown = [row for row in rows if row["name"] in near]
        yield verdict("gpudirect-rdma-not-enabled", 0.88, channels[:2], shown[:2])
    elif near and facts.said(r"gpu ?direct|gdr\b|rdma") and facts.said(_SLOW + r"|not (loaded|enabled)|host memory"):
        yield verdict("gpudirect-rdma-not-enabled", 0.85, rows[:3], context=facts.context)


def _without_p2p(facts: Facts) -> bool:
    models = [hit["model"] for hit in facts.hits("gpu_model")]
    return any(map(NO_P2P_MODELS.search, models)) or bool(NO_P2P_MODELS.search(facts.context))
