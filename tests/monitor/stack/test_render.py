"""What `stoker monitor render` writes, and what it refuses."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import UserError
from stoker.monitor.stack.render import EXPORTERS, Stack, Target, read_target, stack_files, write_files


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("gpu-1", Target("stoker", "gpu-1:9836")),
        ("gpu-1:1234", Target("stoker", "gpu-1:1234")),
        ("dcgm=10.0.0.7", Target("dcgm", "10.0.0.7:9400")),
        ("nvidia=gpu-1:9999", Target("nvidia", "gpu-1:9999")),
        ("node=[::1]:9100", Target("node", "[::1]:9100")),
        ("node=[::1]", Target("node", "[::1]:9100")),
    ],
)
def test_targets(text: str, target: Target) -> None:
    assert read_target(text) == target


@pytest.mark.parametrize("text", ["prom=gpu-1", "dcgm=", "gpu-1:", "gpu-1:99999", "http://gpu-1:9400", "dcgm=gpu-1:x"])
def test_no_targets(text: str) -> None:
    with pytest.raises(UserError, match=r"unknown exporter|is no target"):
        read_target(text)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed: scripts/services installs it")
def test_promtool_accepts_the_configuration(tmp_path: Path) -> None:
    targets = [read_target(f"{exporter}=gpu-1") for exporter in EXPORTERS]
    write_files(tmp_path, stack_files(Stack(targets, guides=True)))
    done = subprocess.run(
        ["promtool", "check", "config", tmp_path / "prometheus" / "prometheus.yml"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 rule files found" in done.stdout


def test_a_target_on_this_machine_gets_the_machine_s_name() -> None:
    made = yaml.safe_load(
        stack_files(Stack([read_target("127.0.0.1"), read_target("gpu-1")]))["prometheus/prometheus.yml"]
    )
    (scraped,) = made["scrape_configs"]
    assert scraped["static_configs"] == [
        {"targets": ["127.0.0.1:9836"], "labels": {"node": socket.gethostname()}},
        {"targets": ["gpu-1:9836"]},
    ]


def test_grafana_finds_its_dashboards() -> None:
    files = stack_files(Stack([], prometheus="http://prometheus:9090"))
    (source,) = yaml.safe_load(files["grafana/provisioning/datasources/stoker.yml"])["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = yaml.safe_load(files["grafana/provisioning/dashboards/stoker.yml"])["providers"]
    assert provider["options"] == {"path": "$STOKER_DASHBOARDS"}
    assert sum(name.startswith("grafana/dashboards/") for name in files) == 5


def test_guides_are_loaded_only_if_asked_for() -> None:
    def loaded(**asked: Any) -> list[str]:
        return yaml.safe_load(stack_files(Stack([], **asked))["prometheus/prometheus.yml"])["rule_files"]

    assert loaded() == ["rules/stoker-recording.yml", "rules/stoker-alerts.yml"]
    assert loaded(guides=True) == [*loaded(), "rules/stoker-guides.yml"]


def test_writing_twice_replaces_and_leaves_nothing_aside(tmp_path: Path) -> None:
    write_files(tmp_path, {"a/b.yml": "1"})
    write_files(tmp_path, {"a/b.yml": "2"})
    assert [(path.name, path.read_text()) for path in tmp_path.rglob("*") if path.is_file()] == [("b.yml", "2")]


def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write to"):
        write_files(tmp_path / "file", {"a/b.yml": "1"})


def test_the_command(command: Callable[..., Any], tmp_path: Path) -> None:
    said = command("monitor", "render", tmp_path, "-t", "dcgm=gpu-1", "--set", "stalled_seconds=60")
    assert (said.code, said.err) == (0, "")
    assert f"files in {tmp_path}" in said.out
    assert "run:since_step_seconds > 60" in (tmp_path / "prometheus/rules/stoker-alerts.yml").read_text()
    assert (tmp_path / "runbooks/gpu-lost.md").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "hot=85"], "there is no threshold 'hot'"),
        (["--set", "stalled_seconds=soon"], "a threshold is a number"),
        (["--set", "stalled_seconds"], "write NAME=VALUE"),
        (["--notify", "nowhere.yaml"], "the notify file cannot be read"),
        (["-t", "prom=x"], "unknown exporter 'prom'"),
    ],
)
def test_mistakes(words: list[str], said: str, command: Callable[..., Any], tmp_path: Path) -> None:
    answer = command("monitor", "render", tmp_path / "stack", *words)
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert not (tmp_path / "stack").exists()


def test_a_relay_without_robots(command: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "notify.yaml").write_text("webhooks: ['http://127.0.0.1:1/']")
    answer = command("monitor", "relay", tmp_path / "notify.yaml")
    assert answer.code == 2
    assert "there is no robot" in answer.err
