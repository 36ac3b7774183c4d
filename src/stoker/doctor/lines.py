"""One line of a log: whose it is, and what of it can be evidence."""

from __future__ import annotations

import json
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
    r"|the kernel does this when memory runs out .*"
    r"|To avoid data inconsistency, we are taking the entire process down\."
)

# What a person typed, not what a program said: `dmesg | grep -i xid` does not show an Xid.
_SEARCH_COMMAND = re.compile(
    r"^\s*(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,80})?[$#>%]\s*(?:sudo\s+)?(?:e?grep|rg|ag|awk|sed|echo|man|less|tail|head|vim?|nano|#)\b"
    r"|^\s*(?:\[?[\w.-]+@[\w.-]+[^$#>]{0,80})?[$#>%]\s*[^|]{1,120}\|\s*(?:e?grep|rg|less|awk)\b"
)

_PREFIXES: tuple[re.Pattern[str], ...] = (
    re.compile(r"^\[[\w-]*?(?:rank|default|trainer|worker)[ :]?(?P<rank>\d+)(?:\|\d+)?\]:?\s*"),  # torchrun
    re.compile(r"^\[\d+,(?P<rank>\d+)\](?:<\w+>)?:?\s*"),  # mpirun --tag-output
    re.compile(r"^\((?P<host>[A-Za-z][\w.\-]*?) pid=\d+(?:, ip=(?P<ip>[\d.]+))?\)\s*"),  # Ray
    re.compile(r"^(?P<rank>\d{1,4}):\s+"),  # srun --label
    re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) (?:stdout|stderr) [FP] "),  # the kubelet's files
    re.compile(r"^[\w.-]+\s+\|\s+"),  # docker compose
    re.compile(r"^\[pod/(?P<host>[\w./-]+)\]\s*"),  # kubectl logs --prefix
    re.compile(  # syslog and journal, in any language
        r"^(?:\w{3,4}\.?|\d{1,2}月) ?\s?\d{1,2} \d\d:\d\d:\d\d(?:\.\d+)? "
        r"(?P<host>[\w.-]+) [\w./()@-]+(?:\[\d+\])?: ?"
    ),
    re.compile(r"^\[\s*\d+\.\d+\]\s*(?:\[\s*T?\d+\]\s*)?"),  # dmesg
    re.compile(r"^\[[^\]]{6,40}\d\d:\d\d:\d\d \d{4}\]\s*"),  # dmesg -T, in any language
    re.compile(r"^\[?\d{4}[-/]\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?\]?:?\s*"),  # a date
    re.compile(r"^-?\s*(?:[\w.]+ )?-?\s*\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\]?\s*[-:|]\s*"),  # logging
    re.compile(r"^(?:[>|]|&gt;) "),  # a quoted mail or issue
)
_MAX_PREFIXES = 5

_JSON_LINE = re.compile(r'^\s*\{.{0,300}?"(?:log|message|msg|MESSAGE)"\s*:\s*("(?:[^"\\]|\\.)*")')
_NCCL = re.compile(r"(?P<host>[A-Za-z][\w.\-]*):(?P<pid>\d+):\d+ \[(?P<device>\d+)\] ")
_SAYS_RANK = re.compile(r"\[Rank (?P<rank>\d+)\]|\bRank (?P<rank2>\d+)\]")
_RANK_INSIDE = re.compile(
    r"\brank(?:=|:? )(?P<rank2>\d+)\b|\[rank(?P<rank3>\d+)\]|\((?:\w+ )?rank (?P<rank4>\d+)\)", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Who wrote a line, as far as its prefix says."""

    rank: int | None = None
    host: str = ""


def clean(text: str) -> str:
    """The line without colours, without the JSON of a log driver, and with advice blanked out."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    if '":' in text:
        text = _unwrap(text)
    if _ADVICE.search(text):
        text = _ADVICE.sub(lambda match: " " * len(match.group()), text)
    return text


def _unwrap(text: str) -> str:
    found = _JSON_LINE.match(text)
    if not found:
        return text
    try:
        return json.loads(found[1]).rstrip("\n")
    except ValueError:
        return text


def is_command(text: str) -> bool:
    """Whether the line is a search that somebody typed at a prompt."""
    return bool(_SEARCH_COMMAND.match(text))


def _strip(text: str) -> tuple[list[re.Match[str]], str]:
    """The prefixes at the beginning of a line, and what is left."""
    found: list[re.Match[str]] = []
    for _ in range(_MAX_PREFIXES):
        match = next((match for prefix in _PREFIXES if (match := prefix.match(text))), None)
        if match is None:
            break
        found.append(match)
        text = text[match.end() :]
    return found, text


def origin_of(text: str) -> Origin:
    """Rank and host from what the line says, or from the prefix of its launcher."""
    prefixes, rest = _strip(text)
    groups = [match.groupdict() for match in prefixes]
    said = _SAYS_RANK.search(text)
    inside = _RANK_INSIDE.search(rest)
    ranks = [
        *(said.groups() if said else ()),
        *(group.get("rank") for group in groups),
        *(inside.groups() if inside else ()),
    ]
    nccl = _NCCL.search(rest)
    hosts = [*(group.get("ip") or group.get("host") for group in groups), nccl["host"] if nccl else None]
    rank = next(filter(None, ranks), None)
    return Origin(int(rank) if rank is not None else None, next(filter(None, hosts), ""))


def without_prefix(text: str) -> str:
    """The line from where the program's own words begin."""
    return _strip(text)[1]
