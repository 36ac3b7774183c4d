"""The NVIDIA driver's version by every path that can be asked, since they can differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, names_of, text_of
from stoker.host.source import Output, Source, Unreadable

LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64")
_VERSION = r"\d{3}\.\d+(?:\.\d+)?"


@dataclass(frozen=True)
class Package:
    """An installed package of the driver, CUDA or the container toolkit; `held` is kept from upgrades."""

    name: str
    version: str
    state: str = "installed"
    held: bool = False


@dataclass(frozen=True)
class Driver:
    """Versions of the driver.

    Attributes:
        loaded: Of the kernel module that runs, from /proc/driver/nvidia/version; empty if none runs.
        loaded_line: That line.
        flavour: `open` or `proprietary`, of the running module; empty if unknown.
        libraries: Versions of each library file found: `libcuda.so` to (`580.65.06`,).
        library_folders: Where they were found.
        smi: What nvidia-smi says it is; `smi_cuda` the CUDA level that it offers.
        smi_error: What nvidia-smi said where it failed.
        packages: Installed packages of driver, CUDA and container toolkit.
    """

    loaded: str = ""
    loaded_line: str = ""
    flavour: str = ""
    libraries: dict[str, tuple[str, ...]] | None = None
    library_folders: tuple[str, ...] = ()
    smi: str = ""
    smi_cuda: str = ""
    smi_error: str = ""
    packages: tuple[Package, ...] = ()

    @property
    def library_versions(self) -> tuple[str, ...]:
        """Each version of libcuda and libnvidia-ml once."""
        return tuple(dict.fromkeys(version for found in (self.libraries or {}).values() for version in found))


def read(source: Source, notes: Notes) -> Driver:
    """Read the section."""
    loaded = source.read("/proc/driver/nvidia/version")
    if isinstance(loaded, Unreadable) and loaded.kind != "missing":
        notes.note("loaded", loaded.reason)
    text = text_of(loaded)
    version, flavour = loaded_of(text)
    libraries, folders = _libraries(source, notes)
    smi, cuda, error = smi_of(source.run(["nvidia-smi", "--version"]))
    return Driver(
        version,
        next((line.strip() for line in text.splitlines() if "NVRM" in line), ""),
        flavour,
        libraries,
        folders,
        smi,
        cuda,
        error,
        _packages(source, notes),
    )


def loaded_of(text: str) -> tuple[str, str]:
    """Version and flavour in /proc/driver/nvidia/version."""
    match = re.search(rf"NVRM version:.*?\s({_VERSION})\b", text)
    if match is None:
        return "", ""
    return match[1], "open" if "Open Kernel Module" in text else "proprietary"


def library_of(name: str) -> tuple[str, str] | None:
    """Library and version of a file such as `libcuda.so.580.65.06`; None for the links beside it."""
    match = re.fullmatch(rf"(libcuda\.so|libnvidia-ml\.so)\.({_VERSION})", name)
    return (match[1], match[2]) if match else None


def _libraries(source: Source, notes: Notes) -> tuple[dict[str, tuple[str, ...]] | None, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    folders: list[str] = []
    seen = False
    for folder in LIBRARY_FOLDERS:
        names = source.names(folder)
        seen = seen or not isinstance(names, Unreadable)
        for library, version in filter(None, map(library_of, names_of(names))):
            folders = list(dict.fromkeys([*folders, folder]))
            if version not in found.get(library, ()):
                found[library] = (*found.get(library, ()), version)
    if not seen:
        notes.note("libraries", "none of the usual library folders could be listed")
        return None, ()
    return found, tuple(folders)


def smi_of(found: Output | Unreadable) -> tuple[str, str, str]:
    """Driver, CUDA level and error from `nvidia-smi --version`."""
    if isinstance(found, Unreadable):
        return "", "", found.reason if found.kind == "timeout" else ""
    text = found.text
    version = re.search(rf"DRIVER version\s*:\s*({_VERSION})", text, re.IGNORECASE)
    cuda = re.search(r"CUDA Version\s*:\s*(\d+\.\d+)", text, re.IGNORECASE)
    error = next((line.strip() for line in (text + "\n" + found.errors).splitlines() if _is_error(line)), "")
    return version[1] if version else "", cuda[1] if cuda else "", error[:300]


def _is_error(line: str) -> bool:
    return bool(re.search(r"Failed to initialize NVML|has failed because|No devices were found|mismatch", line))


_DPKG = ["dpkg-query", "-W", "-f", r"${db:Status-Abbrev}\t${Package}\t${Version}\n"]
_RPM = ["rpm", "-qa", "--qf", r"ii\t%{NAME}\t%{VERSION}-%{RELEASE}\n"]
_OURS = re.compile(
    r".*nvidia.*|cuda.*|libcuda.*|libnccl.*|libcudnn.*|datacenter-gpu-manager.*|xserver-xorg-video-nv.*|nvlsm|libnvsdm"
    r"|linux-headers-.*|kernel-devel.*"
)


def parse_packages(text: str) -> tuple[Package, ...]:
    """Lines `state<TAB>name<TAB>version`, those that concern GPUs."""
    found: list[Package] = []
    for line in text.splitlines():
        cells = line.split("\t")
        if len(cells) == 3 and _OURS.fullmatch(cells[1]) and cells[0].strip()[:2] not in ("un", "rc"):
            wanted = cells[0].strip()
            state = "installed" if wanted[1:2] == "i" else wanted
            found.append(Package(cells[1], cells[2], state, held=wanted.startswith("h")))
    return tuple(found)


def _packages(source: Source, notes: Notes) -> tuple[Package, ...]:
    for command in (_DPKG, _RPM):
        found = source.run(command, name=command[0])
        if not isinstance(found, Unreadable) and found.text.strip():
            return parse_packages(found.text)
    notes.note("packages", "neither dpkg nor rpm lists the installed packages")
    return ()


def upstream(version: str) -> str:
    """The driver's version in a package's version: `580.65.06` of `1:580.65.06-0ubuntu1`; empty if there is none.

    >>> upstream("580.65.06-0ubuntu0.24.04.1")
    '580.65.06'
    """
    match = re.match(rf"(?:\d+:)?({_VERSION})(?=[-~+]|$)", version)
    return match[1] if match else ""
