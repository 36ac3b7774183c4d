"""Operating systems: what they bring that a wheel or a driver asks for."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from stoker.errors import UserError
from stoker.facts.reader import load
from stoker.facts.version import Version


@dataclass(frozen=True)
class OsRelease:
    """One release of a Linux distribution: a row of os_releases.csv.

    Attributes:
        id: `ID` of /etc/os-release; `version` its `VERSION_ID`, the major only for the Red Hat family.
        glibc: The C library it ships.
        python: Its own python3; others can be installed beside it.
        driver_repository: Its folder in NVIDIA's package repository; empty if there is none.
    """

    id: str
    version: str
    family: Literal["debian", "rhel"]
    glibc: Version
    python: str
    driver_repository: str
    source: str
    notes: str

    @property
    def name(self) -> str:
        """As written on the command line: `ubuntu-24.04`."""
        return f"{self.id}-{self.version}"


def os_releases() -> tuple[OsRelease, ...]:
    """All known operating systems."""
    return load("os_releases.csv", OsRelease)


def find_os(text: str) -> OsRelease:
    """The operating system named `ubuntu-24.04`, `Ubuntu 24.04`, `rocky9`, `rhel-9.4` or `debian:12`.

    Raises:
        UserError: os_releases.csv has no such system.
    """
    wanted = re.sub(r"[^a-z0-9.]", "", text.lower().removesuffix(" lts"))
    match = re.fullmatch(r"([a-z]+?)(?:linux)?([\d.]+)", wanted)
    ident, version = (match[1], match[2]) if match else (wanted, "")
    ident = {"redhat": "rhel", "amazon": "amzn", "oracle": "ol"}.get(ident, ident)
    for row in os_releases():
        short = version.split(".")[0] if row.family == "rhel" else version
        if row.id in (ident, f"{ident}linux") and row.version == short:
            return row
    names = [row.name for row in os_releases()]
    near = difflib.get_close_matches(f"{ident}-{version}", names, n=3, cutoff=0.3)
    raise UserError(f"the operating system {text!r} is not known: write one such as {', '.join(near or names[:3])}")
