"""What the robots are sent, and the relay that sends it, against a robot that runs here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.monitor.notify.relay import Relay, post
from stoker.monitor.notify.robots import WECOM_BYTES, Post, dingtalk, feishu, read_message, refusal, wecom
from stoker.monitor.notify.settings import Notify


def notification(count: int = 1, status: str = "firing") -> dict[str, Any]:
    """As Alertmanager posts it."""
    alert = {
        "status": status,
        "labels": {"alertname": "GpuLost", "severity": "critical", "node": "gpu-1", "gpu": "3"},
        "annotations": {
            "summary": "A GPU is lost: GPU 3 of gpu-1",
            "summary_zh": "GPU 丢失:gpu-1 的 GPU 3",
            "description": "The driver does not reach it.",
            "description_zh": "驱动无法访问。",
            "runbook_url": "https://wiki.example.com/gpu-lost.html",
        },
    }
    return {
        "version": "4",
        "status": status,
        "groupLabels": {"node": "gpu-1"},
        "commonLabels": {"alertname": "GpuLost", "node": "gpu-1"},
        "alerts": [alert] * count,
    }


def test_a_message_in_both_languages() -> None:
    english, chinese = read_message(notification(), "en"), read_message(notification(status="resolved"), "zh")
    assert english.title == "[FIRING] gpu-1 GpuLost"
    assert english.paragraphs == (
        "**critical** A GPU is lost: GPU 3 of gpu-1\nThe driver does not reach it.\n"
        "[runbook](https://wiki.example.com/gpu-lost.html)",
    )
    assert chinese.title == "[恢复] gpu-1 GpuLost"
    assert chinese.paragraphs[0].startswith("**恢复** GPU 丢失:gpu-1 的 GPU 3\n驱动无法访问。")


def test_the_worst_alert_comes_first() -> None:
    content = notification(2)
    content["alerts"] = [{"labels": {"severity": "info"}}, *content["alerts"]]
    message = read_message(content, "en")
    assert message.severity == "critical"
    assert message.paragraphs[-1].startswith("**info**")


def test_dingtalk_signs_in_the_address() -> None:
    made = dingtalk(
        read_message(notification(), "en"), "https://ding/robot/send?access_token=t", "SECabc", 1700000000.123
    )
    asked = parse_qs(urlsplit(made.url).query)
    # printf '1700000000123\nSECabc' | openssl dgst -sha256 -hmac SECabc -binary | base64
    assert asked == {
        "access_token": ["t"],
        "timestamp": ["1700000000123"],
        "sign": ["IqXBU/aLfwMA3S/tDcfRmHx5vWHw9Y1aOgFLBr1Ti9w="],
    }
    assert made.body["msgtype"] == "markdown"
    assert made.body["markdown"]["title"] == "[FIRING] gpu-1 GpuLost"
    assert "GPU 3 of gpu-1" in made.body["markdown"]["text"]


def test_feishu_signs_in_the_body() -> None:
    made = feishu(read_message(notification(), "zh"), "https://feishu/hook/x", "feishu-secret", 1700000000)
    assert made.url == "https://feishu/hook/x"
    # the same with openssl: HMAC-SHA256 of nothing, the key being '1700000000\nfeishu-secret'
    assert (made.body["timestamp"], made.body["sign"]) == ("1700000000", "OrBzY1Y01Gq+HgJsl+7OfWcMVwc7YocohQm5iiZwjhU=")
    assert made.body["card"]["header"] == {
        "title": {"tag": "plain_text", "content": "[告警] gpu-1 GpuLost"},
        "template": "red",
    }


@pytest.mark.parametrize("writer", [dingtalk, feishu])
def test_without_a_secret_nothing_is_signed(writer: Callable[..., Post]) -> None:
    made = writer(read_message(notification(), "en"), "https://robot", "", 1.0)
    assert "sign" not in made.url
    assert "sign" not in made.body


@given(count=st.integers(0, 200), text=st.text(max_size=300))
@settings(max_examples=40, deadline=None)
def test_no_message_is_longer_than_wecom_takes(count: int, text: str) -> None:
    content = notification(count)
    for alert in content["alerts"]:
        alert["annotations"]["summary"] = text
    made = wecom(read_message(content, "en"), "https://wecom", "", 0)
    assert len(made.body["markdown"]["content"].encode()) <= WECOM_BYTES


def test_what_is_left_out_is_said() -> None:
    message = read_message(notification(100), "en")
    assert message.text(WECOM_BYTES).endswith(f"and {100 - message.text(WECOM_BYTES).count('critical')} more")


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"errcode": 0, "errmsg": "ok"}, ""),
        ({"code": 0, "msg": "success", "StatusCode": 0}, ""),
        ({"errcode": 310000, "errmsg": "sign not match"}, "310000: sign not match"),
        ({"code": 19021, "msg": "sign match fail"}, "19021: sign match fail"),
        ({}, ""),
    ],
)
def test_refusals(answer: dict[str, Any], said: str) -> None:
    assert refusal(answer) == said


class Robot(ThreadingHTTPServer):
    """Stands for DingTalk, WeCom or Feishu: keeps what it is sent and answers as it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), RobotHandler)
        self.got: list[Any] = []
        self.answer = b'{"errcode": 0}'
        self.url = f"http://127.0.0.1:{self.server_port}/robot?key=hidden"


class RobotHandler(BaseHTTPRequestHandler):
    server: Robot

    def do_POST(self) -> None:
        self.server.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.answer)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def robot() -> Iterator[Robot]:
    yield from serving(Robot())


@pytest.fixture
def relay(robot: Robot, tmp_path: Path) -> Iterator[Relay]:
    (tmp_path / "url").write_text(f"{robot.url}\n")
    notify = Notify.model_validate({"wecom": {"url_file": str(tmp_path / "url")}, "feishu": {"url_file": "/nowhere"}})
    yield from serving(Relay(("127.0.0.1", 0), notify))


def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def ask(server: Relay, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_relay_passes_a_notification_on(relay: Relay, robot: Robot) -> None:
    assert ask(relay, "/wecom", json.dumps(notification()).encode()) == (200, "sent\n")
    assert [one["msgtype"] for one in robot.got] == ["markdown"]
    assert "GPU 3 of gpu-1" in robot.got[0]["markdown"]["content"]


def test_a_robot_that_refuses_lets_alertmanager_try_again(relay: Relay, robot: Robot) -> None:
    robot.answer = b'{"errcode": 45009, "errmsg": "api freq out of limit"}'
    status, text = ask(relay, "/wecom", json.dumps(notification()).encode())
    assert (status, text) == (502, "the robot refuses: 45009: api freq out of limit\n")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/slack", b"{}", 404),
        ("/wecom", b"no json", 400),
        ("/wecom", b"[]", 400),
        ("/wecom", b"\xff\xfe", 400),
        ("/wecom", b'{"alerts": "none"}', 400),
        ("/feishu", json.dumps(notification()).encode(), 502),
    ],
)
def test_bad_requests(relay: Relay, robot: Robot, path: str, body: bytes, status: int) -> None:
    assert ask(relay, path, body)[0] == status
    assert robot.got == []


def test_a_body_that_is_too_long_is_not_read(relay: Relay) -> None:
    assert ask(relay, "/wecom", b"", **{"Content-Length": "99999999999"})[0] == 413


def test_the_address_of_a_robot_is_not_told() -> None:
    said = post(Post("http://127.0.0.1:9/robot?key=hidden", {}))
    assert said.startswith("the robot cannot be reached")
    assert "hidden" not in said
