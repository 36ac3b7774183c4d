"""The web-config file is Prometheus's; what is wrong in it is told in sentences, all at once."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import pytest

from stoker.errors import UserError
from stoker.monitor.web.web_config import WebConfig, make_tls_context, read_web_config

HASH = "$2b$04$" + "a" * 53


def read(tmp_path: Path, text: str) -> WebConfig:
    (tmp_path / "web.yml").write_text(text)
    return read_web_config(tmp_path / "web.yml")


def test_everything(tmp_path: Path) -> None:
    found = read(tmp_path, f"""
        tls_server_config:
          cert_file: c.pem
          key_file: /k.pem
          client_ca_file: ca.pem
          client_auth_type: RequireAndVerifyClientCert
          min_version: TLS13
        http_server_config:
          http2: false
          headers: {{X-Frame-Options: deny}}
        basic_auth_users: {{a: "{HASH}"}}
        """)  # fmt: skip
    assert found == WebConfig(
        users={"a": HASH}, cert_file=tmp_path / "c.pem", key_file=Path("/k.pem"), client_ca_file=tmp_path / "ca.pem",
        client_check=ssl.CERT_REQUIRED, min_version=ssl.TLSVersion.TLSv1_3, headers={"X-Frame-Options": "deny"},
    )  # fmt: skip


def test_an_empty_file_lets_everyone_in(tmp_path: Path) -> None:
    assert read(tmp_path, "") == WebConfig()
    assert make_tls_context(WebConfig()) is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a: [", "is no YAML"),
        ("- 1", "the file holds no keys"),
        ("tls: {}", "the file: tls is not supported"),
        ("tls_server_config: 3", "tls_server_config holds no keys"),
        ("tls_server_config: {cert_file: a}", "needs both cert_file and key_file"),
        ("tls_server_config: {cert_file: a, key_file: b, min_version: SSL3}", "min_version: SSL3 is not one of TLS12"),
        ("tls_server_config: {cert_file: a, key_file: b, cipher_suites: [X]}", "cipher_suites cannot be chosen"),
        ("tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
         "needs client_ca_file"),
        ("basic_auth_users: {a: secret}", "the password of a is no bcrypt hash"),
        ("http_server_config: {headers: {X-Mine: 1}}", "X-Mine is not supported"),
    ],
)  # fmt: skip
def test_mistakes(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"web\.yml") as raised:
        read(tmp_path, text)
    assert told in str(raised.value)


def test_all_mistakes_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        read(tmp_path, "x: 1\nbasic_auth_users: {a: b, c: d}")
    assert len(raised.value.mistakes) == 3


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_web_config(tmp_path / "none.yml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_web_config(tmp_path)
    if os.geteuid() != 0:
        (tmp_path / "web.yml").touch(mode=0)
        with pytest.raises(UserError, match="cannot be read: Permission denied"):
            read_web_config(tmp_path / "web.yml")


def test_certificates_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "c.pem").write_text("no certificate")
    for name in ("c.pem", "none.pem"):
        with pytest.raises(UserError, match="certificate or key cannot be used"):
            make_tls_context(WebConfig(cert_file=tmp_path / name, key_file=tmp_path / name))
