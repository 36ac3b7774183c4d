"""The tables of the rules hold together, and every row names its source."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from stoker.doctor.catalogue import load_catalogue
from stoker.facts.signals import xids
from stoker.monitor.rules import tables
from stoker.monitor.rules.alerting import labels_of
from stoker.monitor.rules.files import rule_files
from stoker.monitor.rules.promql import filler, xid_codes
from tests.monitor.rules.promtool import DIALECTS

ROOT = Path(__file__).parents[3]
ALL_ALERTS = (*tables.alerts(), *tables.guide_alerts())
RECORDED = {row.series for row in tables.series()} | {row.series for row in tables.derived()}
NAMED = re.compile(r"\b(?:gpu|run|host):\w+")


def test_every_source_is_of_a_known_series_and_exporter() -> None:
    for row in tables.sources():
        assert row.series in RECORDED
        assert row.exporter in tables.exporters()
        assert row.source
        assert row.factor == "" or float(row.factor) > 0


def test_every_series_has_a_source() -> None:
    assert {row.series for row in tables.series()} == {row.series for row in tables.sources()}


def test_stoker_s_own_names_are_those_that_it_exports() -> None:
    text = (ROOT / "src/stoker/monitor/tables/metrics.csv").read_text(encoding="utf-8")
    exported = {row["series"] for row in csv.DictReader(text.splitlines())}
    used = {name for row in tables.sources() for name in re.findall(r"\bstoker_\w+", row.expr)}
    assert used <= exported


def test_the_cases_spell_no_name_that_the_tables_do_not_know() -> None:
    """The cases were written apart from the tables: a name in one of them only is a slip in one of them."""
    known = {name for row in tables.sources() for name in re.findall(r"\w+", row.expr)}
    spelled = {one if isinstance(one, str) else one[0] for d in DIALECTS.values() for one in d["spelled"].values()}
    assert {name.partition("{")[0] for name in spelled} <= known


def test_every_figure_has_a_reason_a_source_and_a_row_for_all_models() -> None:
    names = [row.name for row in tables.thresholds()]
    for row in tables.thresholds():
        assert row.why
        assert row.source
        assert names.count(row.name) >= 1
        re.compile(row.model)
    assert {row.name for row in tables.thresholds() if not row.model} == set(names)


def test_every_figure_is_used() -> None:
    text = " ".join([row.expr for row in (*ALL_ALERTS, *tables.derived(), *tables.sources())])
    assert {row.name for row in tables.thresholds()} == set(re.findall(r"\[\[(?!xid )(\w+)", text))


@pytest.mark.parametrize("alert", ALL_ALERTS, ids=lambda alert: alert.alert)
def test_alert(alert: tables.Alert) -> None:
    assert set(NAMED.findall(alert.expr)) - {"gpu:"} <= RECORDED, "over the common set only"
    assert set(alert.series) <= RECORDED
    assert not re.search(r"\b(rate|irate)\(gpu:(?!\w+_total)", alert.expr), "rate() is for counters"
    assert set(alert.causes) <= set(load_catalogue().signatures), "causes are the doctor's"
    assert alert.causes
    assert alert.steps
    assert re.fullmatch(r"\d+m", alert.wait)
    said = f"{alert.value} {alert.value_zh} {alert.meaning} {alert.meaning_zh}"
    assert set(re.findall(r"\$labels\.(\w+)", said)) <= set(labels_of(alert)), "only labels that it carries"
    assert re.search(r"[\u4e00-\u9fff]", alert.meaning_zh)
    assert re.search(r"[\u4e00-\u9fff]", alert.title_zh)


def test_the_alerts_asked_for_are_there() -> None:
    assert {alert.alert for alert in tables.alerts()} >= {
        "GpuLost", "GpuXidFatal", "GpuXidCritical", "GpuXidWarning", "GpuXidInfo", "GpuEccUncorrectable",
        "GpuRowRemapFailed", "GpuThermalMarginLow", "GpuHardwareSlowdown", "GpuPowerCapLowered", "GpuPcieWidthReduced",
        "GpuPcieGenerationReduced", "GpuNvlinkDown", "GpuMemoryLeak", "GpuIdleWhileMemoryHeld", "GpuHung",
        "RunStalled", "RunDataStarved", "GpuStraggler", "RunLossNotFinite", "RunCheckpointTooOld", "HostDiskFilling",
        "GpuExporterBlind", "GpuSeriesMissing",
    }  # fmt: skip


def test_every_xid_is_of_one_class() -> None:
    classes = [xid_codes(kind).split("|") for kind in ("fatal", "critical", "warning", "info")]
    by_text = {str(code) for code, row in xids().items() if row.severity == "by-text"}
    codes = [code for one in classes for code in one]
    assert len(codes) == len(set(codes))
    assert set(codes) | by_text == {str(code) for code in xids()}
    assert xid_codes("known").split("|") == sorted(codes, key=int)


def test_a_changed_figure_counts_for_all_models() -> None:
    fill = filler(tables.thresholds(), {"slowdown_celsius": 80})
    assert fill("[[slowdown_celsius by model]]") == "(80 + 0 * gpu:info)"
    assert "A100" in filler(tables.thresholds(), {})("[[slowdown_celsius by model]]")


def test_a_runbook_s_address_stands_in_the_alerts() -> None:
    made = rule_files(runbooks="https://wiki.example.com/gpu/")["stoker-alerts.yml"]
    assert "runbook_url: https://wiki.example.com/gpu/gpu-lost.html" in made
    assert "runbook:" not in made
