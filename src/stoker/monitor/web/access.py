"""Who may ask, and over which channel: what a web-config file decides, kept up to date with the file."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from stoker.errors import UserError
from stoker.monitor.web.web_config import WebConfig, make_tls_context, read_web_config

RELOAD_EVERY = 5.0
"""Seconds between two looks at the files."""
_MOST_REMEMBERED = 64


class Access:
    """Answers whether a request may pass.

    bcrypt is slow by design; a password that was right once is remembered by a keyed digest, so that a scrape
    costs microseconds. Wrong ones are checked one at a time: guessing does not take the machine's time.

    Args:
        path: The web-config file; None lets everyone ask in clear text.

    Raises:
        UserError: The file cannot be used.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._key = secrets.token_bytes(32)
        self._checking = threading.Lock()
        self._right: set[bytes] = set()
        self._config, self._tls = WebConfig(), None
        self._looked, self._stamps = time.monotonic(), ()
        if path is not None:
            self._load(path)

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of every answer."""
        return self._config.headers

    @property
    def needs_password(self) -> bool:
        """Whether nobody gets in without."""
        return bool(self._config.users)

    def tls(self) -> ssl.SSLContext | None:
        """What to encrypt with; None for clear text."""
        self._refresh()
        return self._tls

    def allows(self, authorization: str) -> bool:
        """Whether a request with this Authorization header may pass."""
        self._refresh()
        users = self._config.users
        if not users:
            return True
        user, password = _credentials(authorization)
        stored = users.get(user)
        digest = hmac.digest(self._key, f"{user}\0{stored}\0{password}".encode(), hashlib.sha256)
        if digest in self._right:
            return True
        if not password:
            return False
        with self._checking:
            # An unknown user takes as long as a known one: time must not tell who exists.
            right = _matches(password, stored or next(iter(users.values()))) and stored is not None
        if right:
            if len(self._right) >= _MOST_REMEMBERED:
                self._right.clear()
            self._right.add(digest)
        return right

    def _load(self, path: Path) -> None:
        config = read_web_config(path)
        self._tls = make_tls_context(config)
        self._config = config
        self._stamps = _stamps(path, config)

    def _refresh(self) -> None:
        """Read changed files anew, such as a renewed certificate. Broken ones leave what was in force."""
        now = time.monotonic()
        if self._path is None or now - self._looked < RELOAD_EVERY:
            return
        self._looked = now
        if _stamps(self._path, self._config) != self._stamps:
            try:
                self._load(self._path)
            except UserError as error:
                self._stamps = _stamps(self._path, self._config)
                sys.stderr.write(f"warning: {error}; the old settings stay in force\n")


def _stamps(path: Path, config: WebConfig) -> tuple[int, ...]:
    found: list[int] = []
    for file in (path, config.cert_file, config.key_file, config.client_ca_file):
        try:
            found.append(0 if file is None else os.stat(file).st_mtime_ns)  # noqa: PTH116
        except OSError:
            found.append(-1)
    return tuple(found)


def _credentials(authorization: str) -> tuple[str, str]:
    """User and password of a Basic header; empty where it is none."""
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic":
        return "", ""
    try:
        user, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return user, password


def _matches(password: str, stored: str) -> bool:
    import bcrypt

    try:
        return bcrypt.checkpw(password.encode()[:72], stored.encode())  # bcrypt looks at no more
    except ValueError:
        return False
