"""A client of NCCL RAS: every process of an NCCL job (2.24 and newer) can say how all the others are.

The protocol is lines of text over TCP: `CLIENT PROTOCOL 2`, `TIMEOUT n`, `SET FORMAT json` (2.28.7 and newer), then
`STATUS`, after which the answer comes until the server closes. Source: NCCL's user guide, chapter RAS, and
src/ras/client_support.cc of NCCL 2.30.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ADDRESS = ("localhost", 28028)
"""Where RAS listens unless NCCL_RAS_ADDR says otherwise."""
PROTOCOL = 2
GATHER_SECONDS = 5
"""How long RAS itself waits for other processes; its own default."""
MAX_BYTES = 1 << 26


@dataclass(frozen=True)
class Peer:
    """A rank as RAS names it."""

    rank: int
    host: str
    pid: int
    trouble: str = ""

    def __str__(self) -> str:
        return f"rank {self.rank} (pid {self.pid} on host {self.host}){' ' + self.trouble if self.trouble else ''}"


@dataclass(frozen=True)
class RasStatus:
    """What one query gave.

    Attributes:
        version: NCCL's.
        ranks: How many ranks answered, over all communicators.
        silent: Those that are dead, do not answer or report an error.
        counts: Per communicator and collective: what each rank has launched.
        text: The answer as it came.
    """

    version: str
    ranks: int
    silent: tuple[Peer, ...]
    counts: Mapping[tuple[str, str], Mapping[Peer, int]] = field(default_factory=dict[Any, Any])
    text: str = ""


def address_of(setting: str) -> tuple[str, int]:
    """Host and port in NCCL_RAS_ADDR, such as `localhost:28028` or `[::1]:28028`; the default if it has none."""
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]*):(\d{1,5})", setting.strip())
    return (found[1].strip("[]") or ADDRESS[0], int(found[2])) if found else ADDRESS


def query(address: tuple[str, int] = ADDRESS, gather_seconds: int = GATHER_SECONDS) -> str | OSError:
    """The answer to STATUS, as JSON where NCCL can, else as text; or why there is none."""
    try:
        with socket.create_connection(address, timeout=2.0) as connection:
            return _converse(connection, gather_seconds)
    except OSError as error:
        return error


def _converse(connection: socket.socket, gather_seconds: int) -> str | OSError:
    stream = connection.makefile("rwb")

    def say(line: str) -> str:
        stream.write(line.encode() + b"\n")
        stream.flush()
        return stream.readline(1 << 12).decode("utf-8", "replace").strip()

    if not say(f"CLIENT PROTOCOL {PROTOCOL}").upper().startswith("SERVER PROTOCOL"):
        return ConnectionError("what answers there is not NCCL RAS")
    say(f"TIMEOUT {gather_seconds}")
    say("SET FORMAT json")  # refused with a line by an NCCL that has only text
    connection.settimeout(gather_seconds + 5.0)
    stream.write(b"VERBOSE STATUS\n")
    stream.flush()
    return stream.read(MAX_BYTES).decode("utf-8", "replace")


def read_status(text: str) -> RasStatus:
    """Read an answer of either form."""
    start = text.find("{")
    if start >= 0:
        try:
            return _from_json(json.loads(text[start:]), text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
    return _from_text(text)


def _from_json(answer: Mapping[str, Any], text: str) -> RasStatus:
    silent: list[Peer] = []
    counts: dict[tuple[str, str], dict[Peer, int]] = {}
    ranks = 0
    for communicator in answer["communicators"]:
        for one in communicator["ranks"]:
            ranks += 1
            peer = Peer(int(one["rank"]), str(one["host"]), int(one["pid"]))
            if trouble := _trouble(one["status"]):
                silent.append(Peer(peer.rank, peer.host, peer.pid, trouble))
            for operation, count in one["collective_counts"].items():
                counts.setdefault((str(communicator["hash"]), str(operation)), {})[peer] = int(count)
        for one in communicator["missing_ranks"]:
            status = one["status"]
            trouble = "is considered dead" if status["considered_dead"] else "does not answer"
            if status["considered_dead"] or status["unresponsive"]:
                silent.append(Peer(int(one["rank"]), str(one["host"]), int(one["pid"]), trouble))
    return RasStatus(str(answer["nccl_version"]), ranks, tuple(dict.fromkeys(silent)), counts, text)


def _trouble(status: Mapping[str, Any]) -> str:
    """NcclSuccess is 0 and ncclInProgress 7 (nccl.h); anything else is an error."""
    code = int(status["async_error"])
    return f"reports error {code}" if code not in (0, 7) else ""


_LOST = re.compile(r"Process (\d+) on node (\S+) managing GPUs? ([\d,]+)")
_RANK = re.compile(r"Rank (\d+) (?:has (.+?) )?-- GPU \S+(?: \(NVML \S+\))? managed by process (\d+) on node (\S+)")
_LAUNCHED = re.compile(r"launched up to operation (\d+)|not launched any operations")
_VERSION = re.compile(r"NCCL version (\S+)")


def _from_text(text: str) -> RasStatus:
    """The form for people: sections with a heading, and ranks listed below what is wrong with them."""
    silent: list[Peer] = []
    counts: dict[tuple[str, str], dict[Peer, int]] = {}
    section, communicator = "", ""
    for line in text.splitlines():
        heading = re.match(r"(INCOMPLETE|DEAD|TIMEOUT)\s*$|#(\S+) \((\w+)\) (\w+)", line.strip())
        if heading:
            section, communicator = heading[1] or heading[4], heading[3] or ""
        elif found := _RANK.search(line):
            peer = Peer(int(found[1]), found[4], int(found[3]))
            launched = _LAUNCHED.search(found[2] or "")
            if section == "INCOMPLETE":
                silent.append(Peer(peer.rank, peer.host, peer.pid, "does not answer"))
            elif launched:
                counts.setdefault((communicator, "operations"), {})[peer] = int(launched[1] or 0)
        elif (lost := _LOST.search(line)) and section == "DEAD":
            silent.append(Peer(-1, lost[2], int(lost[1]), "is considered dead"))
    version = _VERSION.search(text)
    return RasStatus(version[1] if version else "", 0, tuple(dict.fromkeys(silent)), counts, text)


def behind(first: RasStatus, second: RasStatus) -> list[tuple[str, Peer, int, int]]:
    """Ranks that have launched fewer collectives than others, and have not moved from one query to the next.

    Returns:
        Operation, rank, how many it has launched, how many the furthest has.
    """
    found: list[tuple[str, Peer, int, int]] = []
    for key, counts in second.counts.items():
        most = max(counts.values(), default=0)
        for peer, count in counts.items():
            if count < most and first.counts.get(key, {}).get(peer) == count:
                found.append((key[1], peer, count, most))
    return found
