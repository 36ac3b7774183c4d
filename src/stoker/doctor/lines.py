"""One line of a log: whose it is, and what of it can be evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
ANSI_BYTES = re.compile(_ANSI.pattern.encode())

# Advice that programs print around an error. It names causes that did not happen, so it is never evidence.
_ADVICE = re.compile(
    r"CUDA kernel errors might be asynchronously reported.*?(?:incorrect\.|$)"
    r"|For debugging consider passing CUDA_LAUNCH_BLOCKING=1\.?"
    r"|Compile with `?TORCH_USE_CUDA_DSA`? to enable device-side assertions\.?"
    r"|If reserved but unallocated memory is large try setting \S+ to avoid fragmentation\.?"
    r"|If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation\.?"
    r"|HINT: .*"
    r"|\(run with NCCL_DEBUG=\w+ for details\)"
    r"|It can be also caused by unexpected exit of a remote peer.*?(?:remote peers?|$)"
    r"|If this is caused by a collective mismatch.*"
    r"|You can (?:make a clone to get a normal tensor|increase the timeout).*"
    r"|To avoid data inconsistency, we are taking the entire process down\."
)

# What a person typed, not what a program said: `dmesg | grep -i xid` does not show an Xid.
_SEARCH_COMMAND = re.compile(
    r"^\s*(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,80})?[$#>%]\s*(?:sudo\s+)?(?:e?grep|rg|ag|awk|sed|echo|man|less|tail|head|vim?|nano|#)\b"
    r"|^\s*(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,80})?[$#>%]\s*[^|]{1,120}\|\s*(?:e?grep|rg|less|awk)\b"
)

_PREFIXES: tuple[re.Pattern[str], ...] = (
    re.compile(r"^\[[\w-]*?(?:rank|default|trainer|worker)[ :]?(?P<rank>\d+)(?:\|\d+)?\]:?\s*"),
    re.compile(r"^\[\d+,(?P<rank>\d+)\](?:<\w+>)?:?\s*"),
    re.compile(r"^\((?P<host>[A-Za-z][\w.\-]*?) pid=\d+(?:, ip=(?P<ip>[\d.]+))?\)\s*"),
    re.compile(r"^(?P<rank>\d{1,4}):\s+"),
    re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] "),
    re.compile(r"^[\w.-]+\s+\|\s+"),
    re.compile(r"^\[pod/(?P<host>[\w./-]+)\]\s*"),
)

_NCCL = re.compile(r"(?P<host>[A-Za-z][\w.\-]*):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] ")
_RANK_INSIDE = re.compile(
    r"\[Rank (?P<rank>\d+)\]|\brank(?:=|:? )(?P<rank2>\d+)\b"
    r"|\[rank(?P<rank3>\d+)\]|\((?:\w+ )?rank (?P<rank4>\d+)\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote a line, as far as its prefix says."""

    rank: int | None = None
    host: str = ""


def clean(text: str) -> str:
    """The line without colours, and with advice blanked out."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if _ADVICE.search(text):
        text = _ADVICE.sub(lambda match: " " * len(match.group()), text)
    return text


def is_command(text: str) -> bool:
    """Whether the line is a search that somebody typed at a prompt."""
    return bool(_SEARCH_COMMAND.match(text))


def origin_of(text: str) -> Origin:
    """Rank and host from the prefixes of torchrun, srun, mpirun, Ray, Kubernetes and NCCL."""
    rank: int | None = None
    host = ""
    rest = text
    for _ in range(3):
        for prefix in _PREFIXES:
            found = prefix.match(rest)
            if found:
                groups = found.groupdict()
                if rank is None and groups.get("rank"):
                    rank = int(groups["rank"])
                host = host or groups.get("ip") or groups.get("host") or ""
                rest = rest[found.end() :]
                break
        else:
            break
    inside = _RANK_INSIDE.search(rest)
    if rank is None and inside:
        rank = int(next(value for value in inside.groups() if value))
    nccl = _NCCL.search(rest)
    if nccl:
        host = host or nccl["host"]
    return Origin(rank, host)


def without_prefix(text: str) -> str:
    """The line from where the program's own words begin."""
    for _ in range(3):
        for prefix in _PREFIXES:
            found = prefix.match(text)
            if found:
                text = text[found.end() :]
                break
        else:
            break
    return text
