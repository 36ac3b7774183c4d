"""Slurm on this node: its version, its configuration of GPUs, and what the controller says of the node."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stoker.host.probing import Notes, integer, printed, text_of
from stoker.host.source import Source

FOLDERS = ("/etc/slurm", "/etc/slurm-llnl", "/run/slurm/conf")


@dataclass(frozen=True)
class GresLine:
    """A line of gres.conf that gives this node GPUs."""

    line: str
    number: int
    autodetect: str = ""
    files: tuple[str, ...] = ()
    count: int | None = None


@dataclass(frozen=True)
class Slurm:
    """Slurm.

    Attributes:
        version: Of slurmd; empty if it is not installed.
        gres: Lines of gres.conf about GPUs, `gres_path` where they stand.
        configured: GPUs that slurm.conf promises of this node; None if it does not say.
        constrain_devices: Whether cgroup.conf keeps jobs to their own GPUs; None if unknown.
        proctrack: `ProctrackType` of slurm.conf.
        state: Of the node as the controller says: `IDLE`, `DOWN+DRAIN`; `reason` why.
        node_line: The line that says so.
    """

    version: str = ""
    gres: tuple[GresLine, ...] = ()
    gres_path: str = ""
    configured: int | None = None
    constrain_devices: bool | None = None
    proctrack: str = ""
    state: str = ""
    reason: str = ""
    node_line: str = ""


def read(source: Source, notes: Notes) -> Slurm:
    """Read the section."""
    version = version_of(printed(source.run(["slurmd", "-V"])))
    folder = next((name for name in FOLDERS if text_of(source.read(f"{name}/slurm.conf"))), "")
    if not version and not folder:
        return Slurm()
    conf = text_of(source.read(f"{folder}/slurm.conf"))
    host = text_of(source.read("/proc/sys/kernel/hostname")).strip().partition(".")[0]
    node = printed(source.run(["scontrol", "show", "node", host or "localhost"], name="scontrol_show_node"))
    if not node.strip():
        notes.note("state", "the controller did not answer `scontrol show node`")
    state, reason, line = node_state(node)
    gres = text_of(source.read(f"{folder}/gres.conf"))
    return Slurm(
        version,
        parse_gres(gres, host),
        f"{folder}/gres.conf" if gres else "",
        promised_gpus(conf, host),
        constrains_devices(text_of(source.read(f"{folder}/cgroup.conf"))),
        _setting(conf, "ProctrackType"),
        state,
        reason,
        line,
    )


def version_of(text: str) -> str:
    """`24.11.5` of `slurm 24.11.5`."""
    match = re.search(r"^slurm\S* (\d+\.\d+\.\d+)", text, re.MULTILINE)
    return match[1] if match else ""


def in_hostlist(host: str, expression: str) -> bool:
    """Whether a host is of Slurm's host list: `gpu[01-08,12],login`.

    >>> in_hostlist("gpu03", "login,gpu[01-08]")
    True
    """
    for part in _parts(expression):
        match = re.fullmatch(r"([^\[]*)\[([\d,-]*)\](.*)", part.strip())
        if match is None:
            if part.strip() == host:
                return True
            continue
        middle = host.removeprefix(match[1]).removesuffix(match[3])
        if host.startswith(match[1]) and host.endswith(match[3]) and middle.isdigit() and len(middle) < 10:
            for piece in match[2].split(","):
                low, _, high = piece.partition("-")
                same_width = len(middle) >= len(low)
                if low.isdigit() and same_width and int(low[:10]) <= int(middle) <= int((high or low)[:10] or 0):
                    return True
    return False


def _parts(expression: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for character in expression[:10_000]:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def parse_gres(text: str, host: str) -> tuple[GresLine, ...]:
    """Lines of gres.conf that concern GPUs of this host."""
    lines: list[GresLine] = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.partition("#")[0].strip()
        nodes = _setting(line, "NodeName")
        detect = _setting(line, "AutoDetect")
        if (nodes and not in_hostlist(host, nodes)) or (not detect and "name=gpu" not in line.lower()):
            continue
        lines.append(
            GresLine(line, number, detect.lower(), expand(_setting(line, "File")), integer(_setting(line, "Count")))
        )
    return tuple(lines)


def expand(files: str) -> tuple[str, ...]:
    """Paths of `File=/dev/nvidia[0-3]`."""
    match = re.fullmatch(r"([^\[]+)\[(\d{1,3})-(\d{1,3})\]", files)
    if match:
        return tuple(f"{match[1]}{number}" for number in range(int(match[2]), int(match[3]) + 1))
    return tuple(part for part in files.split(",") if part)


def promised_gpus(conf: str, host: str) -> int | None:
    """GPUs in the NodeName line of slurm.conf that is about this host: `Gres=gpu:a100:8`."""
    for line in conf.replace("\\\n", " ").splitlines():
        nodes = _setting(line, "NodeName")
        if nodes and (nodes == "DEFAULT" or in_hostlist(host, nodes)):
            counts = re.findall(r"\bgpu(?::[A-Za-z][\w.-]*)?:(\d{1,4})", _setting(line, "Gres"))
            if counts:
                return sum(map(int, counts))
    return None


def constrains_devices(conf: str) -> bool | None:
    """`ConstrainDevices` of cgroup.conf; None without the file."""
    return _setting(conf, "ConstrainDevices").lower() in ("yes", "true", "1") if conf else None


def node_state(text: str) -> tuple[str, str, str]:
    """State, reason and the line of the state, from `scontrol show node`."""
    state = re.search(r"^[ \t]*(State=(\S+).*)$", text, re.MULTILINE)
    reason = re.search(r"^[ \t]*Reason=(.*)$", text, re.MULTILINE)
    return state[2] if state else "", reason[1].strip() if reason else "", state[1].strip() if state else ""


def _setting(text: str, key: str) -> str:
    match = re.search(rf"(?:^|\s){key}\s*=\s*(\S+)", text, re.IGNORECASE | re.MULTILINE)
    return match[1] if match else ""
