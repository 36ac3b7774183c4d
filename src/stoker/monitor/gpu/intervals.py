"""How often the driver is asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Intervals:
    """Seconds between two samples.

    Attributes:
        fast: Of what changes quickly and costs little.
        slow: Of process lists, PCIe rates, error counters, limits.
        limit: After so long a driver call counts as blocked.
    """

    fast: float = 5.0
    slow: float = 60.0
    limit: float = 10.0
