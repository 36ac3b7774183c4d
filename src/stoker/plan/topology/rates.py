"""What a link carries in theory and what it reaches, from the tables of facts and plan. GB/s are 10^9 bytes/s."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from stoker.facts.gpus import Gpu
from stoker.facts.signals import links
from stoker.plan.hardware import table

PCIE_GENERATIONS = (3, 4, 5, 6)


@dataclass(frozen=True)
class Rate:
    """One way, GB/s: by the standard or data sheet, and as reached in practice."""

    theory: float
    reached: float

    def scaled(self, share: float) -> Rate:
        """The same link at a share of its width."""
        return Rate(self.theory * share, self.reached * share)


@cache
def pcie(generation: int, lanes: int) -> Rate:
    """A PCIe link. What a narrow one reaches is taken in proportion to what sixteen lanes reach.

    Generation 6 has not been measured yet: it is taken to reach the share of its theory that 5 does.
    """
    by_name = {link.link: link for link in links()}
    whole = by_name[f"PCIe {generation} x16"]
    measured = whole if whole.measured_high_gb_s is not None else by_name["PCIe 5 x16"]
    theory = _known(whole.one_way_gb_s)
    share = _known(measured.measured_high_gb_s) / _known(measured.one_way_gb_s)
    return Rate(theory, theory * share).scaled(lanes / 16)


@cache
def socket_links() -> tuple[str, ...]:
    """The links between processors that are known."""
    return tuple(link.link for link in links() if link.kind == "CPU socket")


@cache
def socket_rate(name: str) -> float:
    """What a link between processors reaches each way."""
    return next(_known(link.measured_high_gb_s) for link in links() if link.link == name)


def fabric(gpu: Gpu, links_used: int, links_per_gpu: int) -> Rate:
    """NVLink of a pair over some of the links of a GPU; half of what `gpus.csv` counts both ways."""
    theory = _known(gpu.peer_link_gb_s) / 2 * links_used / links_per_gpu
    return Rate(theory, theory * _known(reached_share(gpu.peer_link)))


def fabric_links(gpu: Gpu) -> int:
    """NVLinks that a GPU has: 20 GB/s each way for the first generation, 25 from the second, 50 from the fifth.

    The cards with GA102 are the exception: they share 56.25 GB/s among four.
    """
    one_way = _known(gpu.peer_link_gb_s) / 2
    if one_way == 56.25:
        return 4
    return round(one_way / {"NVLink 1": 20, "NVLink 5": 50}.get(gpu.peer_link, 25))


@cache
def reached_share(path: str) -> float | None:
    """What is reached of the theory of a path in paths.csv; None for one that nobody has measured."""
    for row in table("paths"):
        if row["path"] == path:
            return float(row["reached_gb_s"]) / float(row["theory_gb_s"])
    return None


def through_host_memory(slot: Rate) -> float:
    """What a pair reaches each way where its traffic is copied through the memory of the host, both ways busy."""
    return slot.theory * _known(reached_share("host memory"))


def _known(value: float | None) -> float:
    if value is None:
        raise ValueError("a link that is planned with has an empty cell in its table")
    return value
