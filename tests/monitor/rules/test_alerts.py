"""Every alert fires when it should and only then, with every exporter's names, as Prometheus's own promtool says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from stoker.monitor.rules.coverage import supports
from stoker.monitor.rules.files import rule_files
from stoker.monitor.rules.tables import Alert, exporters
from tests.monitor.rules.promtool import ALERTS, DIALECTS, Case, cases, file_for, quiet_file, rules_for, together_file

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed: scripts/services installs it")
ALL = list(cases())
FILES = rule_files()


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    for name, content in FILES.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def promtool(*words: str | Path) -> str:
    done = subprocess.run([str(PROMTOOL), *map(str, words)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules(rules: Path) -> None:
    said = promtool("check", "rules", *sorted(rules.glob("*.yml")))
    assert said.count("SUCCESS") == 3


@pytest.mark.parametrize("alert", ALERTS)
def test_alert(alert: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yml").write_text(rules_for(ALERTS[alert], FILES), encoding="utf-8")
    of_alert = [case for case in ALL if case.alert == alert]
    for step in sorted({case.step for case in of_alert}):
        chosen = [case for case in of_alert if case.step == step]
        (tmp_path / f"every{step}.yml").write_text(file_for(["rules.yml"], chosen), encoding="utf-8")
    promtool("test", "rules", *sorted(tmp_path.glob("every*.yml")))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_alert_of_all_fires_on_a_healthy_machine(dialect: str, rules: Path, tmp_path: Path) -> None:
    (tmp_path / "test.yml").write_text(quiet_file(["stoker-recording.yml", "stoker-alerts.yml"], dialect, minutes=70))
    for name in ("stoker-recording.yml", "stoker-alerts.yml"):
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    promtool("test", "rules", tmp_path / "test.yml")


def test_a_gpu_that_three_exporters_see_is_one_gpu(tmp_path: Path) -> None:
    given = {"at": 20, "set": {"margin": 4}}
    seen = [Case("GpuThermalMarginLow", True, dialect, given) for dialect in ("stoker", "nvidia_gpu_exporter", "dcgm")]
    queries = {
        'count(gpu:info{gpu="3"})': 1,
        'sum(gpu:memory_used_bytes{gpu="3"})': 50e9,
        'count(ALERTS{alertname="GpuThermalMarginLow", alertstate="firing"})': 1,
        "count(gpu:target)": 3,
    }
    for name in ("stoker-recording.yml", "stoker-alerts.yml"):
        (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    content = together_file(["stoker-recording.yml", "stoker-alerts.yml"], seen, queries)
    (tmp_path / "test.yml").write_text(content, encoding="utf-8")
    promtool("test", "rules", tmp_path / "test.yml")


@pytest.mark.parametrize("alert", [alert for alert in ALERTS.values() if alert.scope in ("gpu", "target")], ids=str)
def test_each_exporter_that_is_said_to_serve_an_alert_is_tested_in_both_directions(alert: Alert) -> None:
    tested = {(DIALECTS[case.dialect]["exporter"], case.fires) for case in ALL if case.alert == alert.alert}
    said = {(name, fires) for name in exporters() if supports(name, alert) for fires in (True, False)}
    assert tested == said
