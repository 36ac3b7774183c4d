r"""What the robots of DingTalk, WeCom and Feishu take in place of Alertmanager's JSON, as pure functions.

Formats and limits as their makers document them (read 2026-12-01):
DingTalk: open.dingtalk.com, custom robots, "markdown" and "signing"; a signature is HMAC-SHA256 over
`TIMESTAMP_MS\nSECRET` with the secret as key, in base64, in the address. At most 20 messages a minute.
WeCom: developer.work.weixin.qq.com/document/path/91770, "markdown"; at most 4096 bytes, 20 messages a minute.
Feishu: open.feishu.cn, custom bots, "interactive"; a signature is HMAC-SHA256 over nothing with
`TIMESTAMP_S\nSECRET` as key, in base64, in the body. At most 20 KB.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from stoker.monitor.notify.settings import Language

DINGTALK_BYTES = 18_000
WECOM_BYTES = 4_096
FEISHU_BYTES = 18_000

WORDS: Mapping[Language, Mapping[str, str]] = {
    "en": {"firing": "FIRING", "resolved": "RESOLVED", "more": "and {} more", "page": "runbook"},
    "zh": {"firing": "告警", "resolved": "恢复", "more": "另有 {} 条", "page": "处理手册"},
}
SEVERITIES = ("critical", "warning", "info")


@dataclass(frozen=True)
class Message:
    """What is told: a line, a paragraph per alert, and how bad the worst of them is."""

    title: str
    paragraphs: tuple[str, ...]
    severity: str
    resolved: bool
    more: str
    """Says how many paragraphs were left out; `{}` stands for their number."""

    def text(self, limit: int) -> str:
        """All paragraphs, or as many as `limit` bytes hold and a word about the rest."""
        reserve = len(self.more.encode()) + 8
        kept: list[str] = []
        for number, paragraph in enumerate(self.paragraphs):
            if len("\n\n".join([*kept, paragraph]).encode()) + reserve > limit:
                return "\n\n".join([*kept, self.more.format(len(self.paragraphs) - number)])
            kept.append(paragraph)
        return "\n\n".join(kept)


@dataclass(frozen=True)
class Post:
    """What is sent."""

    url: str
    body: Mapping[str, Any]


def read_message(notification: Mapping[str, Any], language: Language) -> Message:
    """The message of a notification of Alertmanager (webhook payload of version 4).

    Raises:
        ValueError: It is none.
    """
    alerts = notification.get("alerts")
    if not isinstance(alerts, list) or not all(isinstance(alert, dict) for alert in alerts):
        raise ValueError("no `alerts` in it: not a notification of Alertmanager")
    words = WORDS[language]
    resolved = notification.get("status") == "resolved"
    node = _labels(notification, "groupLabels").get("node") or _labels(notification, "commonLabels").get("node", "")
    name = _labels(notification, "commonLabels").get("alertname", "")
    title = " ".join(part for part in (f"[{words['resolved' if resolved else 'firing']}]", node, name) if part)
    ordered = sorted(alerts, key=_rank)
    return Message(
        title,
        tuple(_paragraph(alert, language) for alert in ordered),
        _labels(ordered[0], "labels").get("severity", "warning") if ordered else "info",
        resolved,
        words["more"],
    )


def _labels(holder: Mapping[str, Any], key: str) -> dict[str, str]:
    found = holder.get(key)
    return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _rank(alert: Mapping[str, Any]) -> int:
    severity = _labels(alert, "labels").get("severity")
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _paragraph(alert: Mapping[str, Any], language: Language) -> str:
    labels, said = _labels(alert, "labels"), _labels(alert, "annotations")
    words = WORDS[language]

    def in_language(key: str) -> str:
        return (said.get(f"{key}_zh") if language == "zh" else "") or said.get(key, "")

    state = words["resolved"] if alert.get("status") == "resolved" else labels.get("severity", words["firing"])
    lines = [f"**{state}** {in_language('summary') or labels.get('alertname', '')}", in_language("description")]
    if page := said.get("runbook_url", ""):
        lines.append(f"[{words['page']}]({page})")
    return "\n".join(line for line in lines if line)


def dingtalk(message: Message, url: str, secret: str, now: float) -> Post:
    """For a custom robot of DingTalk."""
    if secret:
        stamp = str(round(now * 1000))
        signature = _signature(secret, f"{stamp}\n{secret}")
        url += f"&timestamp={stamp}&sign={quote_plus(signature)}"
    text = f"#### {message.title}\n\n{message.text(DINGTALK_BYTES)}".replace("\n", "  \n")
    return Post(url, {"msgtype": "markdown", "markdown": {"title": message.title, "text": text}})


def wecom(message: Message, url: str, secret: str, now: float) -> Post:
    """For a group robot of WeCom, whose address is its only secret."""
    del secret, now
    head = f"### {message.title}\n"
    return Post(
        url,
        {"msgtype": "markdown", "markdown": {"content": head + message.text(WECOM_BYTES - len(head.encode()))}},
    )


def feishu(message: Message, url: str, secret: str, now: float) -> Post:
    """For a custom bot of Feishu or Lark."""
    color = "green" if message.resolved else {"critical": "red", "warning": "orange"}.get(message.severity, "blue")
    body: dict[str, Any] = {
        "msg_type": "interactive",
        "card": {
            "header": {"title": {"tag": "plain_text", "content": message.title}, "template": color},
            "elements": [{"tag": "markdown", "content": message.text(FEISHU_BYTES)}],
        },
    }
    if secret:
        stamp = str(round(now))
        body |= {"timestamp": stamp, "sign": _signature(f"{stamp}\n{secret}", "")}
    return Post(url, body)


WRITERS: Mapping[str, Callable[[Message, str, str, float], Post]] = {
    "dingtalk": dingtalk,
    "wecom": wecom,
    "feishu": feishu,
}


def refusal(answer: Mapping[str, Any]) -> str:
    """What a robot says instead of taking a message; empty if it took it. They refuse with HTTP status 200."""
    codes: Sequence[Any] = [answer[key] for key in ("errcode", "code", "StatusCode") if key in answer]
    if not codes or codes[0] == 0:
        return ""
    return (
        f"{codes[0]}: {answer.get('errmsg') or answer.get('msg') or answer.get('StatusMessage') or 'no reason given'}"
    )


def _signature(key: str, text: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), text.encode(), hashlib.sha256).digest()).decode()
