"""Secure Boot, kernel lockdown, and DKMS with the headers of the running kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, names_of, text_of
from stoker.host.source import Source, Unreadable

EFI_VARIABLE = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


@dataclass(frozen=True)
class SecureBoot:
    """Whether the kernel refuses modules it does not trust.

    Attributes:
        efi: Whether the machine was booted through EFI; without it there is no Secure Boot.
        enabled: Secure Boot.
        setup_mode: Whether the platform accepts unsigned keys: then nothing is enforced.
        lockdown: `none`, `integrity` or `confidentiality`; empty if unknown.
        sig_enforce: Whether the kernel takes signed modules only.
        line: What says so.
    """

    efi: bool | None = None
    enabled: bool | None = None
    setup_mode: bool | None = None
    lockdown: str = ""
    sig_enforce: bool | None = None
    line: str = ""


@dataclass(frozen=True)
class DkmsModule:
    """One line of `dkms status`: a module for one kernel, or only `added` for none."""

    name: str
    version: str
    kernel: str = ""
    arch: str = ""
    state: str = ""
    line: str = ""


@dataclass(frozen=True)
class Dkms:
    """Modules that are built for each kernel anew.

    Attributes:
        modules: None built yet, or no DKMS here, gives none.
        headers: Whether the running kernel's headers are there.
    """

    modules: tuple[DkmsModule, ...] = ()
    headers: bool | None = None


def read_secure_boot(source: Source, notes: Notes) -> SecureBoot:
    """Read the section `secure_boot`."""
    efi = "efi" in names_of(source.names("/sys/firmware"))
    lockdown = lockdown_of(text_of(source.read("/sys/kernel/security/lockdown")))
    enforce = text_of(source.read("/sys/module/module/parameters/sig_enforce")).strip()
    enabled, setup, line = _secure_boot(source, notes, efi=efi)
    return SecureBoot(efi, enabled, setup, lockdown, {"Y": True, "N": False}.get(enforce), line)


def _secure_boot(source: Source, notes: Notes, *, efi: bool) -> tuple[bool | None, bool | None, str]:
    if not isinstance(found := source.run(["mokutil", "--sb-state"]), Unreadable):
        state = state_of(found.text + found.errors)
        if state[0] is not None:
            return state
    if not efi:
        return False, None, "not booted through EFI"
    value = source.read(EFI_VARIABLE)
    if not isinstance(value, Unreadable) and len(value) == 5:  # four bytes of attributes, one of value
        return value[4] == "\x01", None, f"EFI variable SecureBoot = {ord(value[4])}"
    notes.note("enabled", "neither mokutil nor the EFI variable could be read")
    return None, None, ""


def state_of(text: str) -> tuple[bool | None, bool | None, str]:
    """Enabled, setup mode and the line that says so, from `mokutil --sb-state`."""
    match = re.search(r"^SecureBoot (enabled|disabled)", text, re.MULTILINE)
    if match is None:
        return None, None, ""
    return match[1] == "enabled", "Setup Mode" in text, match[0]


def lockdown_of(text: str) -> str:
    """The mode in brackets: `none [integrity] confidentiality`."""
    match = re.search(r"\[(\w+)\]", text)
    return match[1] if match else ""


def read_dkms(source: Source, notes: Notes) -> Dkms:
    """Read the section `dkms`."""
    kernel = text_of(source.read("/proc/sys/kernel/osrelease")).strip()
    folder = names_of(source.names(f"/lib/modules/{kernel}")) if kernel else ()
    headers = None
    if folder:
        headers = "build" in folder and _leads_somewhere(source, f"/lib/modules/{kernel}/build")
    else:
        notes.note("headers", "the running kernel's folder in /lib/modules is not there")
    found = source.run(["dkms", "status"])
    if isinstance(found, Unreadable) and found.kind == "missing":
        return Dkms(headers=headers)
    return Dkms(parse_dkms(notes.output("modules", found) or ""), headers)


def _leads_somewhere(source: Source, path: str) -> bool:
    names = source.names(path)
    return (isinstance(names, Unreadable) and names.kind == "unrecorded") or bool(names_of(names))


_DKMS = re.compile(
    r"^(?P<name>[^\s,/:]+)[/,]\s*(?P<version>[^\s,:]+)"
    r"(?:,\s*(?P<kernel>[^\s,:]+),\s*(?P<arch>[^\s,:]+))?\s*:\s*(?P<state>[\w-]+)"
)


def parse_dkms(text: str) -> tuple[DkmsModule, ...]:
    """The modules of `dkms status`, old (`nvidia, 535, k, arch: installed`) and new (`nvidia/535, ...`)."""
    found: list[DkmsModule] = []
    for line in text.splitlines():
        if match := _DKMS.match(line.strip()):
            values = {key: value or "" for key, value in match.groupdict().items()}
            found.append(DkmsModule(**values, line=line.strip()))
    return tuple(found)
