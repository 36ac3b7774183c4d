"""A small HTTP server: one thread per connection, of which there are few, and nothing a client sends can end it."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
import traceback
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from stoker._version import __version__
from stoker.errors import UserError
from stoker.monitor.web.access import Access
from stoker.monitor.web.routes import Request, Response, Route

MOST_CONNECTIONS = 64
PATIENCE = 30.0
"""Seconds that a client may take for a request, and a kept connection may stay silent."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: MonitorServer  # pyright: ignore[reportIncompatibleVariableOverride]  # it only serves this one
    protocol_version = "HTTP/1.1"
    server_version = f"stoker/{__version__}"
    sys_version = ""
    timeout = PATIENCE
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body leave in one piece

    def do_GET(self) -> None:
        """Answer by the table."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """The same without the body."""
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        if "Content-Length" in self.headers or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # the body is not read: what follows it could not be told from it
        response = self._response()
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        for name, value in {**self.server.access.headers, **response.headers}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if with_body:
            self.wfile.write(response.body)

    def _response(self) -> Response:
        if not self.server.access.allows(self.headers.get("Authorization", "")):
            return Response(
                b"Unauthorized\n", status=HTTPStatus.UNAUTHORIZED, headers={"WWW-Authenticate": "Basic"}
            )  # fmt: skip
        path, _, query = self.path.partition("?")
        route = self.server.routes.get(path)
        if route is None:
            return Response(b"Not Found\n", status=HTTPStatus.NOT_FOUND)
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            return route(Request(path, query, headers))
        except Exception:  # a fault of ours: one answer less, not one exporter less
            traceback.print_exc()
            return Response(b"Internal Server Error\n", status=HTTPStatus.INTERNAL_SERVER_ERROR)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # its name in the base class
        """A line per request would drown what matters."""


class MonitorServer(ThreadingTCPServer):
    """Serves a table of routes.

    Args:
        address: Host and port to listen on.
        routes: What can be asked for.
        access: Who may ask, and whether in clear text.

    Raises:
        UserError: The address cannot be listened on.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], routes: Mapping[str, Route], access: Access) -> None:
        self.routes, self.access = routes, access
        self._room = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except (OSError, OverflowError) as error:
            raise UserError(_no_listening(address, error)) from error

    def process_request(self, request: Any, client_address: Any) -> None:
        """Turn a client away at once where there are too many."""
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Shake hands in the connection's own thread, where a silent client holds up nobody else."""
        try:
            context = self.access.tls()
            if context is not None:
                request.settimeout(PATIENCE)
                with contextlib.suppress(OSError):
                    request = context.wrap_socket(request, server_side=True)
                if not isinstance(request, ssl.SSLSocket):
                    self.shutdown_request(request)
                    return
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or never spoke HTTP, is no event."""


def _no_listening(address: tuple[str, int], error: Exception) -> str:
    host, port = address
    if isinstance(error, OSError):
        if error.errno == errno.EADDRINUSE:
            return f"port {port} on {host} is in use: end what listens there, or write another --listen"
        if error.errno == errno.EACCES:
            return f"port {port} needs root: write a --listen with a port above 1023"
    return f"--listen {host}:{port} cannot be listened on: {error}"
