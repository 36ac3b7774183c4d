"""How GPUs and network cards reach each other: `nvidia-smi topo -m`, `topo -p2p`, and the state of NVLinks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probes.gpus import SECONDS
from stoker.host.probing import Notes, first_line, integer, number, printed
from stoker.host.source import Source

_KINDS = ("X", "SYS", "NODE", "PHB", "PXB", "PIX", "PIX*", "SOC", "NV\\d+", "N/A")
_KIND = re.compile("|".join(kind.replace("*", "\\*") for kind in _KINDS))
_P2P = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
P2P_WORDS = {
    "OK": "works",
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "NS": "not supported",
    "DR": "disabled by a registry key",
    "U": "unknown",
}
"""What the cells of `nvidia-smi topo -p2p` mean, as its legend says."""


@dataclass(frozen=True)
class Matrix:
    """A matrix of `nvidia-smi topo`.

    Attributes:
        rows: Cells by name of the row (`GPU0`, `NIC1`) and of the column.
        affinities: CPUs near each GPU, as a list; empty where not printed.
        numa: NUMA node of each GPU, as printed.
        nics: Names behind `NIC0`, `NIC1`: `mlx5_0`.
    """

    rows: dict[str, dict[str, str]] | None = None
    affinities: dict[str, str] | None = None
    numa: dict[str, str] | None = None
    nics: dict[str, str] | None = None

    def pairs(self) -> dict[tuple[str, str], str]:
        """The cell of each pair of GPUs, once."""
        rows = self.rows or {}
        gpus = [name for name in rows if name.startswith("GPU")]
        return {
            (one, other): rows[one][other]
            for place, one in enumerate(gpus)
            for other in gpus[place + 1 :]
            if other in rows[one]
        }


@dataclass(frozen=True)
class NvLink:
    """One link of a GPU. Its speed in GB/s one way; None if it is down."""

    gpu: int
    link: int
    speed_gb_s: float | None
    errors: dict[str, int] | None = None


@dataclass(frozen=True)
class Links:
    """Links between GPUs.

    Attributes:
        topology: The matrix of `topo -m`.
        p2p_read: Whether each GPU can read another's memory; `p2p_write` write.
        nvlinks: Of every GPU that has some.
    """

    topology: Matrix | None = None
    p2p_read: Matrix | None = None
    p2p_write: Matrix | None = None
    nvlinks: tuple[NvLink, ...] = ()


def read(source: Source, notes: Notes) -> Links:
    """Read the section."""
    return Links(
        _matrix(source, notes, "topology", ["-m"]),
        _matrix(source, notes, "p2p_read", ["-p2p", "r"]),
        _matrix(source, notes, "p2p_write", ["-p2p", "w"]),
        _nvlinks(source, notes),
    )


def _matrix(source: Source, notes: Notes, name: str, arguments: list[str]) -> Matrix | None:
    text = notes.output(name, source.run(["nvidia-smi", "topo", *arguments], timeout=SECONDS))
    if text is None:
        return None
    matrix = parse_matrix(text)
    if not matrix.rows:
        notes.note(name, first_line(text) or "nvidia-smi printed no matrix")
        return None
    return matrix


def parse_matrix(text: str) -> Matrix:
    """A matrix of any width and age: GPUs and NICs (`mlx5_0`, `NIC0`) as rows and columns, in any order."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    columns: list[str] = []
    rows: dict[str, dict[str, str]] = {}
    affinities: dict[str, str] = {}
    numa: dict[str, str] = {}
    for line in text.splitlines():
        words = line.split()
        if not columns:
            columns = [
                word
                for word in words
                if re.fullmatch(r"(?:GPU|NIC|mlx\d_|nvswitch)\d+(?:bond\d+)?", word, re.IGNORECASE)
            ]
            columns = columns if columns and words[0] == columns[0] else []
            continue
        if not words or words[0] not in columns or words[0] in rows:
            continue
        cells = words[1 : len(columns) + 1]
        if len(cells) < len(columns) or not all(_KIND.fullmatch(cell) or _P2P.fullmatch(cell) for cell in cells):
            continue
        rows[words[0]] = dict(zip(columns, cells, strict=True))
        rest = words[len(columns) + 1 :]
        if rest and re.fullmatch(r"[\d,-]+", rest[0]):
            affinities[words[0]] = rest[0]
        if len(rest) > 1 and re.fullmatch(r"[\d,-]+", rest[1]):
            numa[words[0]] = rest[1]
    nics = dict(re.findall(r"^[ \t]*(NIC\d+):[ \t]*(\S+)[ \t]*$", text, re.MULTILINE))
    return Matrix(rows or None, affinities or None, numa or None, nics or None)


def _nvlinks(source: Source, notes: Notes) -> tuple[NvLink, ...]:
    text = notes.output("nvlinks", source.run(["nvidia-smi", "nvlink", "-s"], timeout=SECONDS))
    if text is None:
        return ()
    return parse_nvlinks(text, printed(source.run(["nvidia-smi", "nvlink", "-e"], timeout=SECONDS)))


def parse_nvlinks(status: str, errors: str = "") -> tuple[NvLink, ...]:
    """Links of `nvidia-smi nvlink -s` with the counters of `nvlink -e`."""
    counters = _counters(errors)
    found: list[NvLink] = []
    gpu = -1
    for line in status.splitlines():
        if match := re.match(r"GPU (\d{1,4}):", line.strip()):
            gpu = int(match[1])
        elif gpu >= 0 and (match := re.match(r"Link (\d{1,4}):\s*(.*)", line.strip())):
            link = int(match[1])
            found.append(NvLink(gpu, link, number(match[2]), counters.get((gpu, link))))
    return tuple(found)


def _counters(text: str) -> dict[tuple[int, int], dict[str, int]]:
    found: dict[tuple[int, int], dict[str, int]] = {}
    gpu = -1
    for line in text.splitlines():
        if match := re.match(r"GPU (\d{1,4}):", line.strip()):
            gpu = int(match[1])
        elif gpu >= 0 and (match := re.match(r"Link (\d{1,4}):\s*([^:]{1,60}):\s*(\d+)", line.strip())):
            count = integer(match[3])
            if count is not None:
                found.setdefault((gpu, int(match[1])), {})[match[2].strip()] = count
    return found
