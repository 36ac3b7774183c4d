"""What the package manager changed lately of driver and kernel, and whether it may do so by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, names_of, text_of
from stoker.host.source import Source, Unreadable

MAX_CHANGES = 200
"""The newest that are kept."""
_OURS = re.compile(r"nvidia|libcuda|^cuda|^linux-(?:image|headers|modules)|^kernel(?:$|-)|libnccl|cudnn|datacenter-gpu")


@dataclass(frozen=True)
class Change:
    """A package that was installed, upgraded or removed.

    Attributes:
        time: As the log has it: `2026-11-28 06:12:33`.
        command: What asked for it, such as `/usr/bin/unattended-upgrade`; empty if the log does not say.
        line: Number in the log, from 1, and `path` the log.
    """

    time: str
    action: str
    package: str
    old: str
    new: str
    command: str
    path: str
    line: int


@dataclass(frozen=True)
class Upgrades:
    """Recent changes, and what is kept from changing by itself.

    Attributes:
        unattended: Whether the machine installs updates by itself; None if unknown.
        excluded: Patterns that unattended-upgrades leaves alone.
    """

    changes: tuple[Change, ...] = ()
    unattended: bool | None = None
    excluded: tuple[str, ...] = ()

    def automatic(self) -> tuple[Change, ...]:
        """Changes that no person asked for."""
        return tuple(
            change for change in self.changes if "unattended" in change.command or "dnf-automatic" in change.command
        )


def read(source: Source, notes: Notes) -> Upgrades:
    """Read the section."""
    return Upgrades(_changes(source, notes), _unattended(source), _excluded(source))


def _changes(source: Source, notes: Notes) -> tuple[Change, ...]:
    readers = {
        "/var/log/apt/history.log": parse_apt_history,
        "/var/log/dnf.rpm.log": parse_dnf,
        "/var/log/zypp/history": parse_zypper,
    }
    seen = False
    for path, parse in readers.items():
        text = source.read(path, tail=True)
        if isinstance(text, Unreadable):
            continue
        seen = True
        if changes := parse(text, path):
            return changes[-MAX_CHANGES:]
    if not seen:
        notes.note("changes", "no log of the package manager could be read")
    return ()


def parse_apt_history(text: str, path: str = "") -> tuple[Change, ...]:
    """The changes in apt's history.log that concern driver and kernel, oldest first."""
    changes: list[Change] = []
    time = command = ""
    for number, line in enumerate(text.splitlines(), 1):
        key, _, rest = line.partition(": ")
        if key == "Start-Date":
            time, command = " ".join(rest.split()), ""
        elif key == "Commandline":
            command = rest.strip()
        elif key in ("Install", "Upgrade", "Downgrade", "Remove", "Purge", "Reinstall"):
            for name, versions in re.findall(r"([\w.+-]+)(?::\w+)? \(([^)]*)\)", rest):
                if _OURS.search(name):
                    old, new = _old_and_new(key, versions)
                    changes.append(Change(time, key.lower(), name, old, new, command, path, number))
    return tuple(changes)


def _old_and_new(action: str, versions: str) -> tuple[str, str]:
    parts = [part.strip() for part in versions.split(",") if part.strip() != "automatic"]
    if len(parts) > 1:
        return parts[0], parts[1]
    only = parts[0] if parts else ""
    return (only, "") if action in ("Remove", "Purge") else ("", only)


def parse_dnf(text: str, path: str = "") -> tuple[Change, ...]:
    """The changes in dnf.rpm.log: `2026-11-28T06:12:33+0000 SUBDEBUG Upgrade: name-version-release.arch`."""
    changes: list[Change] = []
    pattern = re.compile(r"^(\S+) \S+ (Upgrade|Upgraded|Installed|Install|Erase|Downgrade): (\S+?)-(?:\d+:)?(\d\S*)$")
    for number, line in enumerate(text.splitlines(), 1):
        match = pattern.match(line)
        if match and _OURS.search(match[3]):
            old = match[2] in ("Upgraded", "Erase")
            version = match[4]
            action = match[2].lower()
            changes.append(
                Change(match[1], action, match[3], version if old else "", "" if old else version, "", path, number)
            )
    return tuple(changes)


def parse_zypper(text: str, path: str = "") -> tuple[Change, ...]:
    """The changes in zypper's history: `2026-11-28 06:12:33|install|name|version|arch|...`."""
    changes: list[Change] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split("|")
        if len(cells) > 4 and cells[1].strip() in ("install", "remove") and _OURS.search(cells[2]):
            action, version = cells[1].strip(), cells[3].strip()
            gone = action == "remove"
            changes.append(
                Change(
                    cells[0].strip(),
                    action,
                    cells[2],
                    version if gone else "",
                    "" if gone else version,
                    "",
                    path,
                    number,
                )
            )
    return tuple(changes)


def _unattended(source: Source) -> bool | None:
    """Whether apt or dnf installs updates by itself, as its configuration says."""
    for folder in ("/etc/apt/apt.conf.d",):
        names = source.names(folder)
        if isinstance(names, Unreadable):
            continue
        values = [
            value
            for name in names
            for value in re.findall(
                r'^[ \t]*APT::Periodic::Unattended-Upgrade\s+"([^"]*)"',
                text_of(source.read(f"{folder}/{name}")),
                re.MULTILINE,
            )
        ]
        return values[-1] not in ("", "0") if values else False
    automatic = source.read("/etc/dnf/automatic.conf")
    if isinstance(automatic, Unreadable):
        return None
    return bool(
        re.search(r"^[ \t]*apply_updates[ \t]*=[ \t]*(?:yes|true|1)[ \t]*$", automatic, re.MULTILINE | re.IGNORECASE)
    )


def _excluded(source: Source) -> tuple[str, ...]:
    folder = "/etc/apt/apt.conf.d"
    texts = [text_of(source.read(f"{folder}/{name}")) for name in names_of(source.names(folder))]
    return tuple(pattern for text in texts for pattern in blacklist_of(text))


def blacklist_of(text: str) -> tuple[str, ...]:
    """The patterns of `Unattended-Upgrade::Package-Blacklist { "nvidia"; };`."""
    plain = re.sub(r"(?m)^[ \t]*(?://|#).*$", "", text)
    block = re.search(r"Unattended-Upgrade::Package-Blacklist\s*\{([^}]*)\}", plain)
    return tuple(re.findall(r'"([^"]+)"\s*;', block[1])) if block else ()
