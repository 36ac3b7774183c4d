"""The notify file, and the configuration that is made of it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from stoker.errors import UserError
from stoker.monitor.notify.alertmanager import alertmanager_config
from stoker.monitor.notify.settings import Notify, read_notify, read_secret
from stoker.monitor.rules.tables import alerts

ALL: dict[str, Any] = {
    "language": "zh",
    "email": {
        "to": ["ops@example.com", "gpu@example.com"],
        "sender": "stoker@example.com",
        "server": "smtp.example.com:587",
        "username": "stoker",
        "password_file": "/etc/stoker/smtp",
    },
    "webhooks": ["http://127.0.0.1:8000/alerts"],
    "dingtalk": {"url": "https://oapi.dingtalk.com/robot/send?access_token=t", "secret_file": "/etc/stoker/ding"},
    "wecom": {"url_file": "/etc/stoker/wecom"},
    "feishu": {"url": "https://open.feishu.cn/open-apis/bot/v2/hook/x"},
}


@pytest.mark.skipif(shutil.which("amtool") is None, reason="amtool is not installed: scripts/services installs it")
@pytest.mark.parametrize("content", [{}, ALL, {"webhooks": ["http://127.0.0.1:1/"], "info": True}])
def test_amtool_accepts_the_configuration(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "alertmanager.yml").write_text(alertmanager_config(Notify.model_validate(content)), encoding="utf-8")
    done = subprocess.run(["amtool", "check-config", tmp_path / "alertmanager.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_who_is_told() -> None:
    made = yaml.safe_load(alertmanager_config(Notify.model_validate(ALL)))
    people, nobody = made["receivers"]
    assert [one["url"] for one in people["webhook_configs"]] == [
        "http://127.0.0.1:8000/alerts",
        "http://127.0.0.1:9837/dingtalk",
        "http://127.0.0.1:9837/wecom",
        "http://127.0.0.1:9837/feishu",
    ]
    (email,) = people["email_configs"]
    assert email["to"] == "ops@example.com, gpu@example.com"
    assert "summary_zh" in email["text"]
    assert nobody == {"name": "nobody"}
    assert made["route"]["group_by"] == ["node"]
    assert made["route"]["routes"][0] == {"matchers": ['severity="info"'], "receiver": "nobody"}


def test_no_secret_stands_in_the_configuration() -> None:
    made = alertmanager_config(Notify.model_validate(ALL))
    assert "access_token" not in made
    assert "open-apis" not in made


def test_inhibitions_name_alerts_that_exist() -> None:
    names = {alert.alert for alert in alerts()}
    for rule in yaml.safe_load(alertmanager_config(Notify()))["inhibit_rules"]:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, _, value = matcher.replace("!", "").replace("~", "").partition("=")
            if label == "alertname":
                assert {name for name in value.strip('"').split("|") if not name.endswith(".*")} <= names


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("email: {to: a@b.c, sender: s@b.c}", "email.server: Field required"),
        ("email: {to: a@b.c, sender: s@b.c, server: smtp}", "email.server: String should match"),
        ("slack: {}", "unknown key 'slack'"),
        ("wecom: {}", "give either url or url_file"),
        ("wecom: {url: 'ftp://x'}", "wecom.url"),
        ("webhooks: [nothing]", "webhooks.0"),
        ("language: fr", "language"),
        ("a: [", "is no YAML"),
        ("- a", "the file: Input should be"),
    ],
)
def test_mistakes_are_sentences(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "notify.yaml").write_text(text)
    with pytest.raises(UserError, match=r"notify\.yaml") as caught:
        read_notify(tmp_path / "notify.yaml")
    assert said in str(caught.value)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    (tmp_path / "notify.yaml").write_text("language: fr\nslack: {}\nwecom: {url: x}\n")
    with pytest.raises(UserError) as caught:
        read_notify(tmp_path / "notify.yaml")
    assert len(caught.value.mistakes) == 3


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        read_notify(tmp_path / "none.yaml")
    with pytest.raises(UserError, match="cannot be read"):
        read_secret(tmp_path / "none")
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(UserError, match="is empty"):
        read_secret(tmp_path / "empty")
