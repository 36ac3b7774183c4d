"""Which alert can fire with which exporter."""

from __future__ import annotations

from stoker.monitor.rules.tables import Alert, derived, sources


def supports(exporter: str, alert: Alert) -> bool:
    """Whether an exporter has all the series that an alert needs."""
    return exporter not in alert.not_for and all(_has(exporter, series) for series in alert.series)


def _has(exporter: str, series: str) -> bool:
    for row in derived():
        if row.series == series:
            return all(_has(exporter, needed) for needed in row.needs)
    return any(source.series == series and source.exporter == exporter for source in sources())
