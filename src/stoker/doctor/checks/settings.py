"""Variables of NCCL, CUDA and torch: names, values, leftovers of debugging, interfaces that exist."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator

from stoker.doctor.checks.base import Found, Limits, check, fail, fine, info, seen, warn
from stoker.facts.signals import run_variables
from stoker.finding import Evidence
from stoker.host.probes.settings import Setting
from stoker.host.snapshot import Snapshot

_NEEDS = ("settings.settings",)
_CHECKED = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_")
_LEFTOVERS = {
    "NCCL_P2P_DISABLE": ("1", "GPUs exchange data through main memory"),
    "NCCL_SHM_DISABLE": ("1", "ranks of one machine talk through the network stack"),
    "NCCL_IB_DISABLE": ("1", "NCCL uses TCP in place of RDMA"),
    "NCCL_NVLS_ENABLE": ("0", "NVSwitches do not reduce"),
    "NCCL_CUMEM_ENABLE": ("0", "NCCL falls back to the older way to share memory"),
    "NCCL_NET_GDR_LEVEL": ("LOC", "RDMA copies through main memory"),
    "CUDA_LAUNCH_BLOCKING": ("1", "every kernel waits for the one before"),
    "PYTORCH_NO_CUDA_MEMORY_CACHING": ("1", "every allocation goes to the driver"),
    "NCCL_DEBUG": ("TRACE", "NCCL writes a line for every call"),
}
"""Value that a debugging session leaves behind, and what it costs."""
_LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "SYS")
_TUNING = ("NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", "NCCL_NTHREADS", "NCCL_BUFFSIZE")


def _at(setting: Setting) -> Evidence:
    return seen(setting.place, str(setting))


@check("variable-names", needs=_NEEDS)
def variable_names(machine: Snapshot, limits: Limits) -> Iterator[Found]:
    """NCCL and torch ignore a name that they do not know, without a word."""
    known = run_variables()
    for setting in machine.settings.beginning(*_CHECKED):
        if setting.name in known:
            continue
        near = difflib.get_close_matches(setting.name, known, n=1, cutoff=limits["likeness"])
        if near:
            yield warn(
                "variable-misspelt",
                f"{setting.name} is read by nobody; {near[0]} is.",
                _at(setting),
                name=setting.name,
                instead=near[0],
            )
        else:
            yield info(
                "variable-unknown",
                f"{setting.name} is in no list of the variables of NCCL and torch that stoker has.",
                _at(setting),
                name=setting.name,
            )


@check("variable-past", needs=_NEEDS)
def variable_past(machine: Snapshot) -> Iterator[Found]:
    """Names that newer releases no longer read, or will not."""
    for setting in machine.settings.settings:
        row = run_variables().get(setting.name)
        if row is None or row.state not in ("deprecated", "removed") or machine.settings.get(row.instead):
            continue
        instead = f"; {row.instead} takes its place" if row.instead else ""
        make = warn if row.state == "removed" else info
        word = "no longer read" if row.state == "removed" else "a name of the past"
        yield make(
            "variable-of-the-past",
            f"{setting.name} is {word}{instead}.",
            _at(setting),
            name=setting.name,
            instead=row.instead or "nothing",
        )


@check("variable-leftovers", needs=_NEEDS)
def variable_leftovers(machine: Snapshot) -> Iterator[Found]:
    """Settings that help to find a fault and cost speed if they stay."""
    for name, (value, cost) in _LEFTOVERS.items():
        setting = machine.settings.get(name)
        if setting and setting.value.upper() == value:
            yield warn("variable-left-over", f"{setting} is set: {cost}.", _at(setting), name=name)


@check("nccl-tuning", needs=_NEEDS)
def nccl_tuning(machine: Snapshot) -> Iterator[Found]:
    """NCCL chooses better than a pinned value, and its maker advises against pinning in production."""
    pinned = [setting for name in _TUNING if (setting := machine.settings.get(name))]
    if pinned:
        yield info(
            "nccl-tuning-pinned",
            f"{', '.join(setting.name for setting in pinned)} overrides what NCCL would choose.",
            *map(_at, pinned[:4]),
            name=pinned[0].name,
        )


@check("nccl-levels", needs=_NEEDS)
def nccl_levels(machine: Snapshot) -> Iterator[Found]:
    """NCCL_P2P_LEVEL and NCCL_NET_GDR_LEVEL take names of distances."""
    for name in ("NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL"):
        setting = machine.settings.get(name)
        if setting is None or setting.value.upper() in _LEVELS:
            continue
        if setting.value.isdigit():
            yield info(
                "nccl-level-number",
                f"{setting} is a number, whose meaning changes between releases.",
                _at(setting),
                name=name,
            )
        else:
            yield fail(
                "nccl-level-invalid",
                f"{setting} is no level: NCCL knows {', '.join(_LEVELS)}.",
                _at(setting),
                name=name,
            )


def interface_matches(value: str, names: list[str]) -> list[str]:
    """The interfaces that a value of NCCL_SOCKET_IFNAME means: prefixes, `=` exact names, `^` all but these."""
    exclude = value.startswith("^")
    rest = value.lstrip("^")
    exact = rest.startswith("=")
    words = [word for word in rest.lstrip("=").split(",") if word]
    hit = [name for name in names if any(name == word if exact else name.startswith(word) for word in words)]
    return [name for name in names if name not in hit] if exclude else hit


@check("nccl-interface", needs=(*_NEEDS, "network.interfaces"))
def nccl_interface(machine: Snapshot) -> Iterator[Found]:
    """NCCL_SOCKET_IFNAME must name an interface that is up here."""
    names = [one.name for one in machine.network.interfaces]
    up = [one.name for one in machine.network.interfaces if one.state in ("up", "unknown")]
    for name in ("NCCL_SOCKET_IFNAME", "NCCL_OOB_NET_IFNAME"):
        setting = machine.settings.get(name)
        if setting is None or not setting.value or setting.value.lstrip("=") == "lo":
            continue
        meant = interface_matches(setting.value, names)
        if not meant:
            yield fail(
                "nccl-socket-ifname-wrong",
                f"{setting} names no interface of this machine.",
                _at(setting),
                seen("/sys/class/net", ", ".join(names) or "none but lo"),
            )
        elif not set(meant) & set(up):
            yield fail(
                "nccl-socket-ifname-wrong",
                f"{setting} names {', '.join(meant)}, which is not up.",
                _at(setting),
                seen("/sys/class/net", ", ".join(f"{one.name} {one.state}" for one in machine.network.interfaces)),
            )


@check("nccl-hca", needs=(*_NEEDS, "network.interfaces"))
def nccl_hca(machine: Snapshot) -> Iterator[Found]:
    """NCCL_IB_HCA must name RDMA cards that exist and are active."""
    setting = machine.settings.get("NCCL_IB_HCA")
    if setting is None or setting.value.startswith("^"):
        return
    devices = sorted({port.device for port in machine.network.ports})
    exact = setting.value.startswith("=")
    for word in filter(None, setting.value.lstrip("=").split(",")):
        wanted, _, port = word.partition(":")
        meant = [
            one for one in machine.network.ports if (one.device == wanted if exact else one.device.startswith(wanted))
        ]
        meant = [one for one in meant if not port.isdigit() or one.port == int(port)]
        if not meant:
            yield fail(
                "nccl-hca-wrong",
                f"NCCL_IB_HCA names {word}, which this machine does not have.",
                _at(setting),
                seen("/sys/class/infiniband", ", ".join(devices) or "empty"),
            )
        elif not any(one.state == "ACTIVE" for one in meant):
            yield fail(
                "nccl-hca-wrong",
                f"NCCL_IB_HCA names {word}, which is not active.",
                _at(setting),
                seen("/sys/class/infiniband", f"{meant[0].label} {meant[0].state}"),
            )


@check("nccl-gid-index", needs=_NEEDS)
def nccl_gid_index(machine: Snapshot) -> Iterator[Found]:
    """From NCCL 2.21 on the address is found by itself; a pinned index breaks when the table changes."""
    setting = machine.settings.get("NCCL_IB_GID_INDEX")
    if setting is None or not setting.value.isdigit():
        return
    index = int(setting.value)
    lacking = [
        port
        for port in machine.network.ports
        if port.state == "ACTIVE" and port.gids and index not in {gid.index for gid in port.gids}
    ]
    if lacking:
        yield fail(
            "roce-gid-index-wrong",
            f"{setting}, and {lacking[0].label} has no address of that index.",
            _at(setting),
            seen(
                f"/sys/class/infiniband/{lacking[0].device}",
                f"indices {', '.join(str(gid.index) for gid in lacking[0].gids)}",
            ),
        )
    else:
        yield info(
            "nccl-gid-index-pinned",
            f"{setting} is pinned; NCCL from 2.21 on finds the right one by itself.",
            _at(setting),
            name=setting.name,
        )


@check("visible-devices", needs=_NEEDS)
def visible_devices(machine: Snapshot) -> Iterator[Found]:
    """CUDA_VISIBLE_DEVICES stops at the first device that does not exist."""
    setting = machine.settings.get("CUDA_VISIBLE_DEVICES")
    if setting is None:
        yield fine("CUDA_VISIBLE_DEVICES is not set: all GPUs are visible.")
        return
    words = [word.strip() for word in setting.value.split(",")]
    if setting.value.strip() in ("", "-1", "NoDevFiles", "none"):
        yield warn("visible-devices-wrong", "CUDA_VISIBLE_DEVICES hides every GPU.", _at(setting))
        return
    count = len(machine.gpus.devices)
    wrong = [word for word in words if word.isdigit() and count and int(word) >= count]
    doubled = len(set(words)) < len(words)
    if wrong or doubled:
        why = f"names GPU {wrong[0]}, and there are {count}" if wrong else "names a GPU twice"
        yield fail("visible-devices-wrong", f"CUDA_VISIBLE_DEVICES {why}.", _at(setting))


@check("allocator-settings", needs=_NEEDS)
def allocator_settings(machine: Snapshot) -> Iterator[Found]:
    """PYTORCH_ALLOC_CONF is a list of `option:value`."""
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        setting = machine.settings.get(name)
        parts = re.split(r",(?![^\[]*\])", setting.value) if setting and setting.value else []
        wrong = [part for part in parts if not re.fullmatch(r"\s*\w+:\s*[\w.\[\],:>-]+\s*", part)]
        if setting and wrong:
            yield fail(
                "allocator-settings-invalid",
                f"{name} holds {wrong[0]!r}, which is not `option:value`.",
                _at(setting),
                name=name,
            )
