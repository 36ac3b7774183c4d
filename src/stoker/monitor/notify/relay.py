"""A small server between Alertmanager and the robots of chat groups: one path for each robot."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from stoker.errors import UserError
from stoker.monitor.notify.robots import WRITERS, Post, read_message, refusal
from stoker.monitor.notify.settings import Notify

LOG = logging.getLogger(__name__)
LARGEST_BODY = 4 * 1024 * 1024
SECONDS_TO_ANSWER = 10

Send = Callable[[Post], str]
"""Sends a post; tells why it was not taken, or nothing."""


class Relay(ThreadingHTTPServer):
    """Takes Alertmanager's notifications at `/dingtalk`, `/wecom` and `/feishu` and passes them on."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], notify: Notify, send: Send | None = None) -> None:
        try:
            super().__init__(address, _Handler)
        except OSError as error:
            where = f"{address[0]}:{address[1]}"
            raise UserError(f"the relay cannot listen at {where}: {error.strerror}; give another --listen") from error
        self.notify = notify
        self.send: Send = send or post


class _Handler(BaseHTTPRequestHandler):
    server: Relay  # pyright: ignore[reportIncompatibleVariableOverride]  # socketserver types it as its base
    timeout = SECONDS_TO_ANSWER

    def do_GET(self) -> None:
        """Say that it lives."""
        self._answer(200 if self.path == "/-/ready" else 404, "ready" if self.path == "/-/ready" else "no such page")

    def do_POST(self) -> None:
        """Pass a notification on; 502 lets Alertmanager try again."""
        kind = self.path.strip("/")
        robot = self.server.notify.robots().get(kind)
        if robot is None:
            return self._answer(404, f"no robot {kind!r} in the notify file")
        try:
            size = int(self.headers.get("Content-Length", ""))
        except ValueError:
            return self._answer(411, "Content-Length is missing")
        if not 0 <= size <= LARGEST_BODY:
            return self._answer(413, f"more than {LARGEST_BODY} bytes")
        try:
            content = json.loads(self.rfile.read(size))
            message = read_message(content if isinstance(content, dict) else {}, self.server.notify.language)
        except (ValueError, UnicodeDecodeError) as error:
            return self._answer(400, str(error))
        try:
            refused = self.server.send(WRITERS[kind](message, robot.address(), robot.secret(), time.time()))
        except UserError as error:
            refused = str(error)
        LOG.info("%s: %s: %s", kind, message.title, refused or "sent")
        return self._answer(502 if refused else 200, refused or "sent")

    def _answer(self, status: int, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base's own name
        """Keep quiet: what matters is logged where it is decided."""


def post(what: Post) -> str:
    """Send to a robot.

    Returns:
        Why it was not taken, without the robot's address, which is a secret; empty if it was.
    """
    body = json.dumps(what.body, ensure_ascii=False).encode()
    request = Request(what.url, body, {"Content-Type": "application/json; charset=utf-8"})
    try:
        with urlopen(request, timeout=SECONDS_TO_ANSWER) as answer:
            said = json.loads(answer.read(LARGEST_BODY))
    except HTTPError as error:
        return f"the robot answers {error.code}"
    except (URLError, OSError) as error:
        return f"the robot cannot be reached: {getattr(error, 'reason', error)}"
    except ValueError:
        return "the robot's answer is no JSON"
    return f"the robot refuses: {reason}" if isinstance(said, dict) and (reason := refusal(said)) else ""
