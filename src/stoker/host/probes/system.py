"""Operating system, kernel, and what kind of machine it is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from stoker.host.probing import Notes, integer, matching, names_of, number, pairs, printed, text_of
from stoker.host.source import Source, Unreadable

Family = Literal["debian", "rhel", "suse", "arch", ""]

_FAMILIES: tuple[tuple[Family, tuple[str, ...]], ...] = (
    ("debian", ("debian", "ubuntu")),
    ("rhel", ("rhel", "fedora", "centos", "rocky", "almalinux", "amzn", "ol")),
    ("suse", ("suse", "opensuse", "sles")),
    ("arch", ("arch",)),
)


@dataclass(frozen=True)
class System:
    """The operating system and its kernel.

    Attributes:
        os_id: `ID` of os-release; `os_version` its `VERSION_ID`, `os_name` its `PRETTY_NAME`.
        family: Whose package manager it has: `debian`, `rhel`, `suse`, `arch`, or empty if unknown.
        kernel: Release of the running kernel, as `uname -r` prints it.
        kernels: Releases that have a folder of modules: those that a reboot can bring up.
        arch: Of the processor: `x86_64` or `aarch64`.
        cmdline: What the kernel was booted with.
        virtualization: `none` on bare metal, else the hypervisor: `kvm`, `vmware`; empty if unknown.
        product: Maker's name of the machine.
        uptime_s: Seconds since boot.
        root: Whether it was read as root; much cannot be seen otherwise.
        reboot_required: Whether the package manager asks for a reboot; None where it has no such mark.
    """

    hostname: str = ""
    os_id: str = ""
    os_version: str = ""
    os_name: str = ""
    family: str = ""
    kernel: str = ""
    kernels: tuple[str, ...] = ()
    arch: str = ""
    cmdline: str = ""
    virtualization: str = ""
    product: str = ""
    uptime_s: float | None = None
    root: bool | None = None
    reboot_required: bool | None = None


def read(source: Source, notes: Notes) -> System:
    """Read the section."""
    release = pairs(notes.take("os_id", source.read("/etc/os-release")) or "", "=")
    ident, like = release.get("ID", ""), release.get("ID_LIKE", "")
    family = family_of(ident, like)
    return System(
        hostname=text_of(source.read("/proc/sys/kernel/hostname")).strip(),
        os_id=ident,
        os_version=release.get("VERSION_ID", ""),
        os_name=release.get("PRETTY_NAME", ""),
        family=family,
        kernel=(notes.take("kernel", source.read("/proc/sys/kernel/osrelease")) or "").strip(),
        kernels=_kernels(source, notes),
        arch=_arch(source),
        cmdline=(notes.take("cmdline", source.read("/proc/cmdline")) or "").strip(),
        virtualization=_virtualization(source, notes),
        product=text_of(source.read("/sys/class/dmi/id/product_name")).strip(),
        uptime_s=number(text_of(source.read("/proc/uptime"))),
        root=is_root(text_of(source.read("/proc/self/status"))),
        reboot_required=_reboot_required(source) if family == "debian" else None,
    )


def family_of(ident: str, like: str) -> Family:
    """The family of a distribution from `ID` and `ID_LIKE` of os-release."""
    words = {ident, *like.split()}
    for family, members in _FAMILIES:
        if words & set(members):
            return family
    return ""


def is_root(status: str) -> bool | None:
    """Whether the effective user is root, from /proc/self/status."""
    match = re.search(r"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)
    return match[1] == "0" if match else None


def hypervisor(cpuinfo: str, product: str, vendor: str) -> str:
    """What the processor and the firmware say about virtualisation, where systemd-detect-virt cannot be asked."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    if flags is None or " hypervisor" not in flags[1]:
        return "none" if flags else ""
    known = {"KVM": "kvm", "QEMU": "kvm", "VMware": "vmware", "VirtualBox": "oracle", "Virtual Machine": "microsoft"}
    named = f"{vendor} {product}"
    return next((name for word, name in known.items() if word in named), "vm")


def _virtualization(source: Source, notes: Notes) -> str:
    found = source.run(["systemd-detect-virt", "--vm"])
    answer = "" if isinstance(found, Unreadable) else found.text.strip()
    if answer:
        return answer
    guess = hypervisor(
        text_of(source.read("/proc/cpuinfo")),
        text_of(source.read("/sys/class/dmi/id/product_name")),
        text_of(source.read("/sys/class/dmi/id/sys_vendor")),
    )
    if not guess:
        notes.note("virtualization", "neither systemd-detect-virt nor the processor's flags tell")
    return guess


def _kernels(source: Source, notes: Notes) -> tuple[str, ...]:
    names = notes.take("kernels", source.names("/lib/modules")) or ()
    return tuple(matching(names, r"\d+\.\d+\S*"))


def _arch(source: Source) -> str:
    named = text_of(source.read("/proc/sys/kernel/arch")).strip()
    return named or printed(source.run(["uname", "-m"])).strip()


def _reboot_required(source: Source) -> bool | None:
    run = names_of(source.names("/run"))
    return "reboot-required" in run if run else None


def kernel_key(release: str) -> tuple[tuple[int, int | str], ...]:
    """To sort kernel releases by: numbers as numbers."""
    parts = re.findall(r"\d{1,9}|[a-zA-Z]+", release)
    return tuple((1, integer(part) or 0) if part.isdigit() else (0, part) for part in parts)
