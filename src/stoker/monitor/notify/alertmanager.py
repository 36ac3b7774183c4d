"""Alertmanager's configuration."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from stoker.monitor.notify.settings import Email, Language, Notify
from stoker.monitor.yaml_text import as_yaml

MADE = "# Made by `stoker monitor render` from the notify file: change it there.\n"
NOBODY = {"name": "nobody"}


def alertmanager_config(notify: Notify, *, quick: bool = False) -> str:
    """The configuration as YAML.

    Alerts are grouped by machine: one message for a machine in trouble, not one per GPU. `info` goes nowhere unless
    asked for.

    Args:
        notify: Who is told.
        quick: Wait a second in place of minutes, to try the way of a message out.
    """
    route: dict[str, Any] = {
        "receiver": "people",
        "group_by": ["node"],
        "group_wait": "1s" if quick else "30s",
        "group_interval": "1s" if quick else "5m",
        "repeat_interval": "4h",
        "routes": [
            {"matchers": ['severity="critical"'], "group_wait": "1s" if quick else "10s", "repeat_interval": "1h"}
        ],
    }
    if not notify.info:
        route["routes"].insert(0, {"matchers": ['severity="info"'], "receiver": NOBODY["name"]})
    return MADE + as_yaml(
        {
            "route": route,
            "inhibit_rules": _inhibitions(),
            "receivers": [{"name": "people", **_ways(notify)}, NOBODY],
        }
    )


def _inhibitions() -> list[dict[str, Any]]:
    import yaml

    text = (files("stoker.monitor.notify") / "inhibitions.yaml").read_text(encoding="utf-8")
    return [
        {"source_matchers": row["source"], "target_matchers": row["target"], "equal": row["equal"]}
        for row in yaml.safe_load(text)
    ]


def _ways(notify: Notify) -> dict[str, Any]:
    webhooks = [{"url": url, "send_resolved": True} for url in notify.webhooks]
    webhooks += [{"url": f"{notify.relay}/{kind}", "send_resolved": True} for kind in notify.robots()]
    ways: dict[str, Any] = {"webhook_configs": webhooks} if webhooks else {}
    if notify.email is not None:
        ways["email_configs"] = [_email(notify.email, notify.language)]
    return ways


def _email(email: Email, language: Language) -> dict[str, Any]:
    suffix = "_zh" if language == "zh" else ""
    text = (
        "{{ range .Alerts }}{{ .Status | toUpper }} {{ .Labels.severity }}\n"
        f"{{{{ .Annotations.summary{suffix} }}}}\n{{{{ .Annotations.description{suffix} }}}}\n"
        "{{ .Annotations.causes }}\n{{ .Annotations.runbook_url }}{{ .Annotations.runbook }}\n\n{{ end }}"
    )
    written: dict[str, Any] = {
        "to": ", ".join(email.to),
        "from": email.sender,
        "smarthost": email.server,
        "require_tls": email.tls,
        "send_resolved": True,
        "headers": {"Subject": "[{{ .Status | toUpper }}] {{ .CommonLabels.node }} {{ .CommonLabels.alertname }}"},
        "html": "",
        "text": text,
    }
    if email.username:
        written["auth_username"] = email.username
    if email.password_file is not None:
        written["auth_password_file"] = str(email.password_file)
    return written
