"""Variables that change how a run behaves, from the environment and from NCCL's own files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, text_of
from stoker.host.source import Source

NCCL_FILE = "/etc/nccl.conf"


@dataclass(frozen=True)
class Setting:
    """A variable, its value, and where it was found: `environment` or a path with a line number."""

    name: str
    value: str
    place: str

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


@dataclass(frozen=True)
class Settings:
    """All settings; of several with one name the first wins, as NCCL does it: environment before file."""

    settings: tuple[Setting, ...] = ()

    def get(self, name: str) -> Setting | None:
        """The setting that counts; None if it is not set."""
        return next((one for one in self.settings if one.name == name), None)

    def value(self, name: str) -> str:
        """Its value; empty if it is not set."""
        found = self.get(name)
        return found.value if found else ""

    def beginning(self, *prefixes: str) -> tuple[Setting, ...]:
        """The settings whose names begin so."""
        return tuple(one for one in self.settings if one.name.startswith(prefixes))


def read(source: Source, notes: Notes) -> Settings:
    """Read the section."""
    environ = notes.take("settings", source.environment()) or {}
    found = [Setting(name, value, "environment") for name, value in sorted(environ.items())]
    found += parse_conf(text_of(source.read(NCCL_FILE)), NCCL_FILE)
    return Settings(tuple(found))


def parse_conf(text: str, path: str) -> tuple[Setting, ...]:
    """Lines `NAME=value` of an nccl.conf."""
    found: list[Setting] = []
    for number, line in enumerate(text.splitlines(), 1):
        if match := re.match(r"^\s*(\w+)\s*=\s*(.*?)\s*$", line):
            found.append(Setting(match[1], match[2], f"{path}:{number}"))
    return tuple(found)
