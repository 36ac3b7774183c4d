"""What is wrong now, from the newest sample and the last hour: pure functions that give verdicts.

The alert rules for Prometheus say the same over many machines; both read their thresholds from one table.
"""

from stoker.monitor.judge.all import judge
from stoker.monitor.judge.verdict import Proof, Verdict

__all__ = ["Proof", "Verdict", "judge"]
