"""The HTTP server answers what it should, to whom it should, whatever else is sent to it."""

from __future__ import annotations

import base64
import http.client
import random
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import bcrypt
import pytest

from stoker.errors import UserError
from stoker.monitor.web import access as access_module
from stoker.monitor.web.access import Access
from stoker.monitor.web.routes import Request, Response
from stoker.monitor.web.server import MOST_CONNECTIONS, MonitorServer

HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
GOOD = {"Authorization": "Basic " + base64.b64encode(b"prometheus:secret").decode()}


def fail(request: Request) -> Response:
    raise KeyError(request.path)


def echo(request: Request) -> Response:
    return Response(f"{request.path} {request.query} {request.headers.get('accept-language')}".encode())


ROUTES = {"/metrics": lambda _: Response(b"up 1\n"), "/echo": echo, "/fails": fail}
Serve = Callable[..., MonitorServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[MonitorServer] = []

    def start(config: Path | None = None) -> MonitorServer:
        server = MonitorServer(("127.0.0.1", 0), ROUTES, Access(config))  # type: ignore[arg-type]
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def get(server: MonitorServer, path: str = "/metrics", method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def port_of(server: MonitorServer) -> int:
    return int(server.server_address[1])


def config(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "web.yml"
    path.write_text(text)
    return path


def test_routes(serve: Serve, capfd: pytest.CaptureFixture[str]) -> None:
    server = serve()
    assert get(server) == (200, b"up 1\n")
    assert get(server, "/echo?a=1&b", **{"Accept-Language": "zh"}) == (200, b"/echo a=1&b zh")
    assert get(server, "/none") == (404, b"Not Found\n")
    assert get(server, method="HEAD") == (200, b"")
    assert get(server, method="POST")[0] == 501
    assert get(server, "/fails")[0] == 500
    assert "KeyError" in capfd.readouterr().err
    assert get(server) == (200, b"up 1\n")


def test_one_connection_serves_several_scrapes(serve: Serve) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port_of(serve()), timeout=10)
    for _ in range(3):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == b"up 1\n"
    connection.close()


def malformed(number: int) -> bytes:
    """Requests that no client should send; the same ones every time."""
    dice = random.Random(number)
    noise = dice.randbytes(dice.randrange(1, 200))
    kinds = [
        noise,
        b"GET\r\n\r\n",
        b"GET /metrics HTTP/9.9\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n" + b"X: y\r\n" * 150 + b"\r\n",
        b"GET " + noise + b" HTTP/1.1\r\nHost: " + noise + b"\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999\r\n\r\nx",
        b"GET /metrics HTTP/1.1\r\nAuthorization: Basic " + noise + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00" + noise,  # TLS where there is none
        b"GET http://[::1 HTTP/1.1\r\n\r\n",
        b"",
    ]
    return kinds[number % len(kinds)]


def send(port: int, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass  # the server may hang up as soon as it has seen enough


@pytest.mark.parametrize(("protected", "requests"), [(False, 10_000), (True, 2_000)])
def test_ten_thousand_malformed_requests_leave_it_running(
    protected: bool, requests: int, serve: Serve, tmp_path: Path
) -> None:
    path = config(tmp_path, f"basic_auth_users: {{prometheus: {HASH}}}") if protected else None
    server = serve(path)
    for number in range(requests):
        send(port_of(server), malformed(number))
    assert get(server, **GOOD) == (200, b"up 1\n")
    assert threading.active_count() < MOST_CONNECTIONS


def test_silent_clients_do_not_shut_others_out_for_ever(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    from stoker.monitor.web import server as module

    monkeypatch.setattr(module._Handler, "timeout", 0.3)  # pyright: ignore[reportPrivateUsage]
    server = serve()
    silent = [socket.create_connection(("127.0.0.1", port_of(server))) for _ in range(MOST_CONNECTIONS + 20)]
    try:
        from tests.monitor.waiting import until

        def answered() -> bool:
            try:
                return get(server)[0] == 200
            except OSError:
                return False

        until(answered)
    finally:
        for client in silent:
            client.close()


def test_anonymous_access_is_refused_where_passwords_are_set(serve: Serve, tmp_path: Path) -> None:
    server = serve(config(tmp_path, f"basic_auth_users:\n  prometheus: {HASH}\n"))
    assert get(server)[0] == 401
    assert get(server, "/none")[0] == 401
    for wrong in ("prometheus:wrong", "nobody:secret", "prometheus:", "", "secret", ":"):
        assert get(server, Authorization="Basic " + base64.b64encode(wrong.encode()).decode())[0] == 401
    for wrong in ("Basic !!!", "Basic", "Bearer secret", "Basic " + base64.b64encode(b"\xff:\xff").decode()):
        assert get(server, Authorization=wrong)[0] == 401
    assert get(server, **GOOD) == (200, b"up 1\n")
    assert get(server, **GOOD) == (200, b"up 1\n")


def test_a_right_password_is_checked_slowly_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = Access(config(tmp_path, f"basic_auth_users:\n  prometheus: {HASH}\n"))
    checks: list[str] = []
    real = access_module._matches  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(access_module, "_matches", lambda word, stored: checks.append(word) or real(word, stored))
    assert [access.allows(GOOD["Authorization"]) for _ in range(3)] == [True] * 3
    unknown = "Basic " + base64.b64encode(b"nobody:secret").decode()
    assert [access.allows(unknown) for _ in range(2)] == [False] * 2
    assert checks == ["secret", "secret", "secret"], "a right one once; an unknown user as slowly as a known one"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]  # fmt: skip
    try:
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl command here to make a certificate with")
    return folder


def tls_get(server: MonitorServer, context: ssl.SSLContext) -> bytes:
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(server), timeout=10, context=context)
    connection.request("GET", "/metrics")
    try:
        return connection.getresponse().read()
    finally:
        connection.close()


def test_tls(serve: Serve, certificate: Path, tmp_path: Path) -> None:
    for name in ("cert.pem", "key.pem"):
        (tmp_path / name).write_bytes((certificate / name).read_bytes())
    server = serve(config(tmp_path, "tls_server_config: {cert_file: cert.pem, key_file: key.pem}"))
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    assert tls_get(server, trusting) == b"up 1\n"
    for number in range(60):  # clear text and noise instead of a handshake
        send(port_of(server), malformed(number))
    silent = socket.create_connection(("127.0.0.1", port_of(server)))
    assert tls_get(server, trusting) == b"up 1\n"
    silent.close()
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2
    assert tls_get(server, trusting) == b"up 1\n"


def test_clients_must_show_a_certificate_where_it_is_asked_for(serve: Serve, certificate: Path, tmp_path: Path) -> None:
    files = {key: str(certificate / name) for key, name in (
        ("cert_file", "cert.pem"), ("key_file", "key.pem"), ("client_ca_file", "cert.pem"))}  # fmt: skip
    server = serve(config(tmp_path, f"tls_server_config: {files | {'client_auth_type': 'RequireAndVerifyClientCert'}}"))
    trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        tls_get(server, trusting)
    trusting.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    assert tls_get(server, trusting) == b"up 1\n"


def test_a_changed_file_is_read_anew_and_a_broken_one_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(access_module, "RELOAD_EVERY", 0.0)
    path = config(tmp_path, f"basic_auth_users:\n  prometheus: {HASH}\n")
    access = Access(path)
    assert access.allows(GOOD["Authorization"])
    path.write_text("basic_auth_users: [")
    assert access.allows(GOOD["Authorization"])
    assert not access.allows("")
    assert capfd.readouterr().err.count("the old settings stay in force") == 1
    path.write_text(f"basic_auth_users:\n  another: {HASH}\n")
    assert not access.allows(GOOD["Authorization"])


def test_headers_of_the_file_are_sent(serve: Serve, tmp_path: Path) -> None:
    server = serve(config(tmp_path, "http_server_config: {headers: {X-Frame-Options: deny}}"))
    connection = http.client.HTTPConnection("127.0.0.1", port_of(server), timeout=10)
    connection.request("GET", "/metrics")
    assert connection.getresponse().getheader("X-Frame-Options") == "deny"
    connection.close()


def test_a_port_in_use_is_a_sentence(serve: Serve) -> None:
    port = port_of(serve())
    with pytest.raises(UserError, match=f"port {port} on 127.0.0.1 is in use"):
        MonitorServer(("127.0.0.1", port), {}, Access(None))


def test_an_address_of_another_machine_is_a_sentence() -> None:
    with pytest.raises(UserError, match="cannot be listened on"):
        MonitorServer(("192.0.2.1", 9836), {}, Access(None))
