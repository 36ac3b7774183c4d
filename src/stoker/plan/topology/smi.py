"""A server from what `nvidia-smi topo -m` printed on it.

The text says how near GPUs and network cards are to each other, and on which NUMA node each GPU is. It says
nothing of widths, processors and rates: what is assumed of them stands in the notes of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stoker.errors import Mistake, UserError
from stoker.facts.gpus import Gpu, find_gpu
from stoker.plan.topology.model import Fabric, Nic, Pair, Processors, Server, Uplink
from stoker.plan.topology.rates import fabric_links

ASSUMED_LINK = "inter-CPU link Xeon Skylake UPI"
MOST_LINKS = 18
"""No GPU has more NVLinks (H100, B200): where the pairs of one seem to use more, switches join them."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
_KIND = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+")
_LEGEND = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Topo:
    """The matrix: `kinds[one, other]` of devices by name, and the NUMA node of each GPU (0 where it is not said)."""

    gpus: Sequence[str]
    nics: Sequence[str]
    kinds: Mapping[tuple[str, str], str]
    numa: Mapping[str, int]


def looks_like_topo(text: str) -> bool:
    """Whether a text holds the matrix that `nvidia-smi topo -m` prints."""
    return any(_header(line) for line in _ESCAPE.sub("", text).splitlines())


def read_topo(text: str, *, gpu: str, name: str) -> Server:
    """The server behind the matrix.

    Args:
        text: What was printed; lines around the matrix do no harm.
        gpu: The model, which the matrix does not name.
        name: What to call the server.

    Raises:
        UserError: `gpu` is empty, or a row of the matrix is not whole.
    """
    if not gpu:
        raise UserError(Mistake("the matrix does not name the GPUs: give --gpu, such as --gpu 'A100 SXM4 80GB'", name))
    topo = parse_topo(text, name)
    model = find_gpu(gpu)
    sockets = {node: index for index, node in enumerate(sorted(set(topo.numa.values())))}
    uplinks = _uplinks(topo, model, sockets)
    return Server(
        name=name,
        gpu=model.model,
        gpus=len(topo.gpus),
        processors=Processors(sockets=len(sockets), link=ASSUMED_LINK),
        fabric=_fabric(topo, model),
        uplinks=uplinks,
        nics=tuple(Nic(name=nic) for nic in topo.nics),
        notes=(
            f"read from nvidia-smi topo -m: slots of PCIe {model.pcie_gen} x16 and, between NUMA nodes, an "
            f"{ASSUMED_LINK} are assumed; write a TOML file to say otherwise",
        ),
    )


def parse_topo(text: str, where: str) -> Topo:
    """The matrix of the text.

    Raises:
        UserError: There is none, or a row of it is not whole.
    """
    plain = _ESCAPE.sub("", text)
    lines = plain.splitlines()
    start = next((index for index, line in enumerate(lines) if _header(line)), None)
    if start is None:
        raise UserError(Mistake("there is no matrix of nvidia-smi topo -m in it", where))
    devices = _header(lines[start])
    legend = {match[1]: match[2] for match in _LEGEND.finditer(plain)}
    kinds: dict[tuple[str, str], str] = {}
    numa: dict[str, int] = {}
    for number, line in enumerate(lines[start + 1 :], start=start + 2):
        words = line.split()
        if not words or words[0] not in devices:
            continue
        row, rest = words[1 : len(devices) + 1], words[len(devices) + 1 :]
        if len(row) < len(devices) or not all(_KIND.fullmatch(kind) for kind in row):
            sentence = (
                f"the row of {words[0]} has not {len(devices)} of X, NV#, PIX, PXB, PHB, NODE, SYS: paste it whole"
            )
            raise UserError(Mistake(sentence, f"{where}:{number}"))
        kinds |= {
            (_name(words[0], legend), _name(device, legend)): kind for device, kind in zip(devices, row, strict=True)
        }
        if words[0].startswith("GPU"):
            numa[words[0]] = _numa(rest)
    gpus = [device for device in devices if device.startswith("GPU")]
    if missing := [device for device in gpus if device not in numa]:
        raise UserError(Mistake(f"the row of {missing[0]} is missing: paste the whole matrix", where))
    nics = [_name(device, legend) for device in devices if not device.startswith("GPU")]
    return Topo(gpus, nics, kinds, numa)


def _header(line: str) -> list[str]:
    """The devices of the first line of the matrix; none if it is another line."""
    head = re.split(r"CPU Affinity", line)[0].split()
    return head if len(head) > 1 and head[0] == "GPU0" and not any(_KIND.fullmatch(word) for word in head) else []


def _name(device: str, legend: Mapping[str, str]) -> str:
    return legend.get(device, device)


def _numa(rest: Sequence[str]) -> int:
    """The NUMA node behind the list of processors: `0-23,48-71 0 N/A`; the first one of several."""
    match = re.match(r"\d+", rest[1]) if len(rest) > 1 else None
    return int(match[0]) if match else 0


def _uplinks(topo: Topo, gpu: Gpu, sockets: Mapping[int, int]) -> tuple[Uplink, ...]:
    """Devices that are PIX or PXB to each other hang below one switch, also if only a network card shows it."""
    found: list[Uplink] = []
    for group in _groups(topo):
        gpus = [device for device in topo.gpus if device in group]
        nics = [device for device in topo.nics if device in group]
        numa = _numa_of(topo, group)
        if numa is None:
            continue  # a network card that is far from every GPU: where it is, the matrix does not say
        found.append(
            Uplink(
                name=f"uplink {len(found)}",
                pcie_gen=gpu.pcie_gen or 4,
                switch=len(group) > 1,
                socket=sockets[numa],
                numa=numa,
                gpus=tuple(topo.gpus.index(device) for device in gpus),
                nics=tuple(nics),
            )
        )
    return tuple(found)


def _groups(topo: Topo) -> list[set[str]]:
    """Sets of devices below one switch, in the order of their first device."""
    devices = (*topo.gpus, *topo.nics)
    groups: list[set[str]] = []
    for device in devices:
        near = {other for other in devices if topo.kinds.get((device, other)) in ("PIX", "PXB")} | {device}
        joined = [group for group in groups if group & near]
        groups = [group for group in groups if group not in joined] + [{device}.union(*joined)]
    return sorted(groups, key=lambda group: min(devices.index(device) for device in group))


def _numa_of(topo: Topo, group: set[str]) -> int | None:
    for gpu in topo.gpus:
        if gpu in group or any(topo.kinds.get((nic, gpu)) in ("PHB", "NODE") for nic in group):
            return topo.numa[gpu]
    return None


def _fabric(topo: Topo, gpu: Gpu) -> Fabric | None:
    counted = {
        (one, other): int(kind[2:])
        for (one, other), kind in topo.kinds.items()
        if kind.startswith("NV") and one in topo.gpus and other in topo.gpus
    }
    if not counted:
        return None
    used = [sum(links for (one, _), links in counted.items() if one == device) for device in topo.gpus]
    if max(used) > MOST_LINKS:
        return Fabric(links_per_gpu=max(counted.values()), switches=1)
    pairs = tuple(
        Pair(gpus=(topo.gpus.index(one), topo.gpus.index(other)), links=links)
        for (one, other), links in counted.items()
        if topo.gpus.index(one) < topo.gpus.index(other)
    )
    return Fabric(links_per_gpu=max(fabric_links(gpu), *used), pairs=pairs)
