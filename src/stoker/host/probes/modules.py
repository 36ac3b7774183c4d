"""Kernel modules: which are loaded, which are blacklisted, and what `modinfo` says of NVIDIA's."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, names_of, pairs, text_of
from stoker.host.source import Source, Unreadable

MODPROBE_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/lib/modprobe.d", "/lib/modprobe.d")


@dataclass(frozen=True)
class ModuleFile:
    """The module that modprobe would load: what `modinfo` prints.

    Attributes:
        license: `NVIDIA` of the proprietary flavour, `Dual MIT/GPL` of the open one.
        signer: Whose key signed it; empty if it is unsigned.
    """

    filename: str = ""
    version: str = ""
    license: str = ""
    signer: str = ""
    vermagic: str = ""


@dataclass(frozen=True)
class Modules:
    """Kernel modules.

    Attributes:
        loaded: Names, as in /proc/modules.
        blacklisted: Names that modprobe.d forbids, aliases aside.
        options: `options` lines of modprobe.d for NVIDIA's modules, as written.
        nvidia: What is installed for the running kernel; None if there is none.
        nvidia_line: What modinfo said if it found none.
    """

    loaded: tuple[str, ...] = ()
    blacklisted: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    nvidia: ModuleFile | None = None
    nvidia_line: str = ""


def read(source: Source, notes: Notes) -> Modules:
    """Read the section."""
    loaded = loaded_of(notes.take("loaded", source.read("/proc/modules")) or "")
    blacklisted, options = _modprobe(source)
    module, line = _modinfo(source, notes)
    return Modules(loaded, blacklisted, options, module, line)


def loaded_of(text: str) -> tuple[str, ...]:
    """Names in /proc/modules or in the output of lsmod."""
    return tuple(line.split()[0] for line in text.splitlines() if line.split() and not line.startswith("Module "))


def blacklist_of(text: str) -> tuple[str, ...]:
    """Modules that a modprobe.d file forbids: by `blacklist`, or by installing nothing in their place."""
    pattern = r"^[ \t]*(?:blacklist[ \t]+([\w-]+)|install[ \t]+([\w-]+)[ \t]+(?:/usr)?/bin/(?:false|true))[ \t]*$"
    return tuple((a or b).replace("-", "_") for a, b in re.findall(pattern, text, re.MULTILINE))


def options_of(text: str) -> tuple[str, ...]:
    """The `options` lines for NVIDIA's modules."""
    return tuple(line.strip() for line in re.findall(r"^[ \t]*options[ \t]+nvidia[\w-]*[ \t].*$", text, re.MULTILINE))


def parse_modinfo(text: str) -> ModuleFile:
    """The fields of `modinfo nvidia`."""
    found = pairs(text)
    return ModuleFile(
        found.get("filename", ""),
        found.get("version", ""),
        found.get("license", ""),
        found.get("signer", "") or found.get("sig_id", ""),
        found.get("vermagic", ""),
    )


def _modprobe(source: Source) -> tuple[tuple[str, ...], tuple[str, ...]]:
    blacklisted: list[str] = []
    options: list[str] = []
    for folder in MODPROBE_FOLDERS:
        for name in names_of(source.names(folder)):
            if name.endswith(".conf"):
                text = text_of(source.read(f"{folder}/{name}"))
                blacklisted += blacklist_of(text)
                options += options_of(text)
    return tuple(dict.fromkeys(blacklisted)), tuple(dict.fromkeys(options))


def _modinfo(source: Source, notes: Notes) -> tuple[ModuleFile | None, str]:
    found = source.run(["modinfo", "nvidia"])
    if isinstance(found, Unreadable):
        notes.note("nvidia", found.reason)
        return None, ""
    if "version:" in found.text:
        return parse_modinfo(found.text), ""
    return None, (found.errors or found.text).strip()[:200]
