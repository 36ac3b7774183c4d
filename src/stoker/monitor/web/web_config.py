"""The web-config file of Prometheus's exporters: TLS, passwords and headers.

Format: https://prometheus.io/docs/prometheus/latest/configuration/https/. A key that is known there and not
here is refused: a setting that has no effect is worse than none.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from stoker.errors import Mistake, UserError

_SECTIONS = ("tls_server_config", "http_server_config", "basic_auth_users")
_TLS_KEYS = ("cert_file", "key_file", "client_ca_file", "client_auth_type", "min_version", "max_version",
             "cipher_suites", "prefer_server_cipher_suites")  # fmt: skip
_HEADERS = ("Content-Security-Policy", "X-Frame-Options", "X-Content-Type-Options", "X-XSS-Protection",
            "Strict-Transport-Security")  # fmt: skip
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_CLIENT_CHECKS = {
    "NoClientCert": ssl.CERT_NONE,
    "RequestClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True)
class WebConfig:
    """What the file says.

    Attributes:
        users: bcrypt hashes by user name; none lets everyone in.
        cert_file: With `key_file`, turns TLS on.
        client_check: Whether clients have to show a certificate.
        headers: Sent with every answer.
    """

    users: Mapping[str, str] = field(default_factory=dict[str, str])
    cert_file: Path | None = None
    key_file: Path | None = None
    client_ca_file: Path | None = None
    client_check: ssl.VerifyMode = ssl.CERT_NONE
    min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    max_version: ssl.TLSVersion | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def read_web_config(path: Path) -> WebConfig:
    """Read and check the file; relative paths in it start at its folder.

    Raises:
        UserError: It cannot be read or used; all mistakes at once.
    """
    import yaml

    try:
        value: Any = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except OSError as error:
        raise UserError(f"--web-config {path} cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UserError(f"--web-config {path} is no YAML: {' '.join(str(error).split())}") from error
    reader = _Reader(path)
    config = reader.read(value)
    if reader.mistakes:
        raise UserError(*reader.mistakes)
    return config


def make_tls_context(config: WebConfig) -> ssl.SSLContext | None:
    """What the server encrypts with; None for clear text.

    Raises:
        UserError: Certificate or key cannot be used.
    """
    if config.cert_file is None or config.key_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = config.min_version
    if config.max_version is not None:
        context.maximum_version = config.max_version
    try:
        context.load_cert_chain(config.cert_file, config.key_file, password="")
        if config.client_ca_file is not None:
            context.load_verify_locations(config.client_ca_file)
    except (OSError, ssl.SSLError) as error:
        names = f"{config.cert_file}, {config.key_file}"
        raise UserError(f"tls_server_config: certificate or key cannot be used ({names}): {error}") from error
    context.verify_mode = config.client_check
    return context


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self.mistakes: list[Mistake] = []

    def read(self, value: Any) -> WebConfig:
        sections = self._mapping(value, "the file", _SECTIONS)
        tls = self._mapping(sections.get("tls_server_config"), "tls_server_config", _TLS_KEYS)
        http = self._mapping(sections.get("http_server_config"), "http_server_config", ("http2", "headers"))
        users = self._mapping(sections.get("basic_auth_users"), "basic_auth_users", None)
        headers = self._mapping(http.get("headers"), "http_server_config.headers", _HEADERS)
        return WebConfig(
            users=self._users(users),
            headers={name: str(text) for name, text in headers.items()},
            **self._tls(tls),
        )

    def _wrong(self, message: str) -> None:
        self.mistakes.append(Mistake(message, str(self._path)))

    def _mapping(self, value: Any, name: str, known: tuple[str, ...] | None) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._wrong(f"{name} holds no keys: write `key: value` lines")
            return {}
        found = {str(key): item for key, item in cast("dict[object, Any]", value).items()}
        if known is not None:
            for key in found.keys() - set(known):
                self._wrong(f"{name}: {key} is not supported; the keys are {', '.join(known)}")
        return found

    def _users(self, users: Mapping[str, Any]) -> dict[str, str]:
        for user, stored in users.items():
            if not isinstance(stored, str) or not stored.startswith(("$2a$", "$2b$", "$2y$")) or len(stored) != 60:
                remedy = f"make one with `htpasswd -nBC 10 {user}`"
                self._wrong(f"basic_auth_users: the password of {user} is no bcrypt hash: {remedy}")
        return {user: str(stored) for user, stored in users.items()}

    def _tls(self, tls: Mapping[str, Any]) -> dict[str, Any]:
        if not tls:
            return {}
        if tls.get("cipher_suites") or tls.get("prefer_server_cipher_suites") is False:
            self._wrong("tls_server_config: cipher_suites cannot be chosen here; leave it out")
        files = {key: self._file(tls, key) for key in ("cert_file", "key_file", "client_ca_file")}
        if files["cert_file"] is None or files["key_file"] is None:
            self._wrong("tls_server_config needs both cert_file and key_file")
        check = _chosen(self, tls, "client_auth_type", _CLIENT_CHECKS, ssl.CERT_NONE)
        if check != ssl.CERT_NONE and files["client_ca_file"] is None:
            self._wrong(f"tls_server_config: client_auth_type {tls['client_auth_type']} needs client_ca_file")
        return {
            **files,
            "client_check": check,
            "min_version": _chosen(self, tls, "min_version", _VERSIONS, ssl.TLSVersion.TLSv1_2),
            "max_version": _chosen(self, tls, "max_version", _VERSIONS, None),
        }

    def _file(self, tls: Mapping[str, Any], key: str) -> Path | None:
        name = tls.get(key)
        return self._path.parent / str(name) if name else None

    def wrong_choice(self, key: str, value: object, known: Mapping[str, object]) -> None:
        self._wrong(f"tls_server_config: {key}: {value} is not one of {', '.join(known)}")


def _chosen(reader: _Reader, tls: Mapping[str, Any], key: str, known: Mapping[str, Any], default: Any) -> Any:
    value = tls.get(key)
    if value is None:
        return default
    if value not in known:
        reader.wrong_choice(key, value, known)
        return default
    return known[value]
