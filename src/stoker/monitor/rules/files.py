"""The rule files, as they are written for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from stoker.errors import UserError
from stoker.monitor.rules import tables
from stoker.monitor.rules.alerting import alert_group
from stoker.monitor.rules.promql import filler
from stoker.monitor.rules.recording import recording_groups
from stoker.monitor.yaml_text import as_yaml

GUIDES_FILE = "stoker-guides.yml"
MADE = "# Made by `stoker monitor render`: change the figures with --set, the rules in stoker's tables.\n"
GUIDES_COMMENT = """\
# The plain thresholds of many guides: 85 degrees, 20 % of memory free, 95 % utilisation. They are not loaded by
# default, because one temperature cannot serve all models, an allocator that holds its memory is healthy, and a busy
# GPU is what was paid for, while a hung one reads 100 % as well. Each alert below names the rule to prefer.
"""


def rule_files(changed: Mapping[str, float] | None = None, runbooks: str = "") -> dict[str, str]:
    """The content of every rule file by its name.

    Args:
        changed: Figures of `tables/thresholds.csv` to replace, by name.
        runbooks: Address of the runbook pages; see `alert_group`.

    Raises:
        UserError: A figure of that name does not exist.
    """
    changed = changed or {}
    known = {row.name for row in tables.thresholds()}
    if unknown := sorted(set(changed) - known):
        raise UserError(*(f"there is no threshold {name!r}: use one of {', '.join(sorted(known))}" for name in unknown))
    fill = filler(tables.thresholds(), changed)
    alerts = alert_group("stoker-alerts", tables.alerts(), fill, runbooks)
    guides = alert_group("stoker-guides", tables.guide_alerts(), fill, runbooks)
    return {
        "stoker-recording.yml": MADE + as_yaml({"groups": recording_groups(fill)}),
        "stoker-alerts.yml": MADE + as_yaml({"groups": [alerts]}),
        GUIDES_FILE: MADE + GUIDES_COMMENT + as_yaml({"groups": [guides]}),
    }
