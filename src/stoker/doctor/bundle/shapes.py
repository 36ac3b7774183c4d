"""How names, addresses and secrets look, and what looks like one and is none."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoker.doctor.bundle.masking import Kind

COMMON_USERS = frozenset({
    "root", "nobody", "ubuntu", "debian", "centos", "fedora", "rocky", "admin", "administrator", "user", "users",
    "guest", "test", "docker", "nvidia", "daemon", "ec2-user", "azureuser", "opc", "runner", "jovyan", "home",
    "shared", "data", "work", "scratch", "public", "apps", "local", "default", "none", "null",
})  # fmt: skip
"""Accounts and folders that say nothing about a person."""

COMMON_HOSTS = frozenset({
    "localhost", "localhost.localdomain", "localdomain", "ip6-localhost", "ip6-loopback", "ip6-allnodes",
    "ip6-allrouters", "broadcasthost", "ubuntu", "debian", "centos", "server", "node", "host", "master", "worker",
    "docker", "container", "none", "null", "unknown", "kernel", "systemd", "python", "torch", "nccl", "cuda", "rank",
})  # fmt: skip
"""Names that say nothing about a machine."""

_SECRET_WORD = (
    r"(?:pass(?:word|wd|phrase)|secret|token(?![a-z])|credentials?|webhook|cookie|dsn"
    r"|(?:api|access|private|auth|encryption|account|license)[_-]?key)"
)
NAMES_SECRET = re.compile(rf"{_SECRET_WORD}|(?:^|_)(?:KEY|AUTH|JWT|PAT)$", re.IGNORECASE)
"""A variable whose name matches holds a secret."""

_NO_SECRET = re.compile(
    r"(?:[-+]?\d[\d.,e+-]*|true|false|yes|no|none|null|nil|\*+|<[^>]*>|\{\}|\[\]|auto|unset)\.?", re.IGNORECASE
)

_HOST = r"[A-Za-z][A-Za-z0-9-]*(?:\.[A-Za-z0-9-]+)*"
_MONTHS = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|\d{1,2}月)"
_TAG = r"[\w./()@-]+(?:\[\d+\])?:"
_SERIAL = (
    r"\b(?:serial(?:[ _]?(?:number|no))?|board[ _]serial|chassis[ _]serial|asset[ _]tag)[\"']?[ \t]*[:=][ \t]*[\"']?"
)
_QUOTED = r"\"[^\"\n]+\"|'[^'\n]+'"

TELLING: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("host", re.compile(rf"^({_HOST}):\d+:\d+ \[\d+\] ", re.MULTILINE)),  # NCCL's prefix
    ("host", re.compile(rf"^{_MONTHS} +\d{{1,2}} \d\d:\d\d:\d\d(?:\.\d+)? ({_HOST}) {_TAG}", re.MULTILINE)),  # syslog
    ("host", re.compile(rf"^\d{{4}}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) ({_HOST}) {_TAG}", re.MULTILINE)),  # journal
    (
        "host",
        re.compile(rf"\b(?:MASTER_ADDR|HOSTNAME|SLURMD_NODENAME|NodeName|NodeHostName)[\"']?[=:] *[\"']?({_HOST})"),
    ),
    ("host", re.compile(rf"\"(?:host|hostname)\": \"({_HOST})\"")),
    ("host", re.compile(rf"^\s*(?:\d{{1,3}}\.){{3}}\d{{1,3}}[ \t]+({_HOST})(?:[ \t]+({_HOST}))?\s*$", re.MULTILINE)),
    ("host", re.compile(rf"\b[a-z_][a-z0-9_-]*@({_HOST}):[~/][^\s$#]*[$#] ")),  # a prompt
    ("user", re.compile(rf"\b([a-z_][a-z0-9_.-]*)@{_HOST}:[~/][^\s$#]*[$#] ")),
    ("user", re.compile(r"(?:^|[\s\"'=:(\[,])/(?:[\w.-]+/){0,3}(?:home|Users)/([A-Za-z_][\w.-]*)")),
    (
        "user",
        re.compile(r"\b(?:USER|LOGNAME|SUDO_USER|USERNAME|SLURM_JOB_USER|UserId)[\"']?[=:] *[\"']?([A-Za-z_][\w.-]*)"),
    ),
    ("user", re.compile(r"^([a-z_][\w.-]*):x:[1-9]\d{3,4}:", re.MULTILINE)),  # passwd
    ("serial", re.compile(rf"{_SERIAL}([A-Za-z0-9][\w./-]{{4,}})", re.IGNORECASE)),
)
"""Places that say whose name stands there; the same name is then replaced everywhere."""

_TOKENS = (
    r"hf_[A-Za-z0-9]{16,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|sk-[\w-]{16,}"
    r"|xox[abeoprs]-[\w-]{10,}|(?:AKIA|ASIA)[0-9A-Z]{12,}|AIza[\w-]{30,}|nvapi-[\w-]{16,}|npm_[A-Za-z0-9]{20,}"
    r"|pypi-[\w-]{40,}|dckr_pat_[\w-]{16,}|ya29\.[\w-]{20,}|dop_v1_[0-9a-f]{40,}|SG\.[\w-]{16,}\.[\w-]{16,}"
)
"""How the tokens of well-known services begin."""

_KEYED = (
    rf"[\w.-]*{_SECRET_WORD}[\w.-]*[\"']?(?: *[=:] *| +(?=[\"']?\S*\d))"
    rf"(?P<it>{_QUOTED}|[^\s\"',;&|)}}\]]+)"
)
_INTERNAL = r"internal|local|lan|corp|intra|intranet|localdomain|cluster|home\.arpa"
_V6 = r"[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?::?(?:\d{1,3}\.){3}\d{1,3})?"
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"

PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("secret", re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)),
    ("secret", re.compile(r"\b(?:ssh-(?:rsa|ed25519|dss)|ecdsa-sha2-\w+) (?P<it>AAAA[\w+/=]{20,})")),
    ("secret", re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*")),  # a JSON web token
    ("secret", re.compile(rf"\b(?:{_TOKENS})")),
    ("secret", re.compile(r"\b[a-z][a-z0-9+.-]*://(?P<it>[^\s/@:]+:[^\s/@]+)@", re.IGNORECASE)),  # in a URL
    ("secret", re.compile(r"\b(?:Bearer|Basic|Digest) +(?P<it>[A-Za-z0-9._~+/=-]{8,})")),
    ("secret", re.compile(r"[?&](?:sig|signature|X-Amz-\w+|code|key)=(?P<it>[^\s&\"']{6,})", re.IGNORECASE)),
    ("secret", re.compile(_KEYED, re.IGNORECASE)),
    ("secret", re.compile(rf"\b[A-Z0-9_]*_(?:KEY|AUTH|JWT|PAT)[\"']?[=:] *(?P<it>{_QUOTED}|[^\s\"',;]+)")),
    ("mail", re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z]{2,}\b", re.IGNORECASE)),
    ("host", re.compile(rf"(?<=@)(?P<it>{_HOST})(?=:[~/][^\s$#]*[$#] )")),
    ("host", re.compile(rf"^(?P<it>{_HOST})(?=:\d+:\d+ \[\d+\] )", re.MULTILINE)),
    ("host", re.compile(rf"\b(?P<it>[a-z0-9][\w-]*(?:\.[\w-]+)*\.(?:{_INTERNAL}))\b(?!\.\w)")),
    ("host", re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@]+@)?(?P<it>[A-Za-z][\w-]*(?:\.[\w-]+)*)", re.IGNORECASE)),
    ("uuid", re.compile(rf"\b(?:(?:GPU|MIG)-)?(?P<it>{_UUID})\b", re.IGNORECASE)),
    ("id", re.compile(r"(?<![0-9a-fA-F])(?P<it>[0-9a-f]{64})(?![0-9a-fA-F])")),
    ("mac", re.compile(r"(?<![\w:-])(?P<it>[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,19})(?![\w:-])", re.IGNORECASE)),
    ("guid", re.compile(r"(?<![\w:])(?P<it>[0-9a-f]{4}(?::[0-9a-f]{4}){3})(?![\w:])", re.IGNORECASE)),
    ("guid", re.compile(r"guid\b[\"']?[ \t]*[:=]?[ \t]*[\"']?(?P<it>0x[0-9a-f]{16})\b", re.IGNORECASE)),
    ("ip", re.compile(rf"(?<![\w:.])(?P<it>{_V6})(?![\w:]|\.\d)", re.IGNORECASE)),
    ("ip", re.compile(r"(?<![\w.])(?P<it>(?:\d{1,3}\.){3}\d{1,3})(?![\w.]*\.\w|\w)")),
    ("serial", re.compile(rf"{_SERIAL}(?P<it>[A-Za-z0-9][\w./-]{{2,}})", re.IGNORECASE)),
)
"""What is recognised by its form, in the order in which it is replaced."""

_PUBLIC = re.compile(
    r"(?:^|\.)(?:nvidia|github|githubusercontent|pytorch|python|pypi|ubuntu|debian|kernel|redhat|centos|fedoraproject"
    r"|suse|archlinux|docker|kubernetes|slurm|schedmd|tensorflow|google|huggingface|anaconda|conda|readthedocs|gnu"
    r"|freedesktop|launchpad|mellanox|intel|amd|microsoft|stackoverflow|docs|wikipedia|apache|linuxfoundation)\."
    r"(?:com|org|io|net|co|rs)$",
    re.IGNORECASE,
)
"""Public sites, whose names stand in messages and documentation."""

_WHOLE: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("host", re.compile(r"(?:^|/)(?:proc/sys/kernel|etc)/hostname$")),
    ("id", re.compile(r"(?:^|/)(?:etc|var/lib/dbus)/machine-id$")),
    ("serial", re.compile(r"(?:^|/)(?:\w+_serial|serial|\w*asset_tag|serial_number)$")),
    ("uuid", re.compile(r"(?:^|/)\w*uuid$")),
    ("guid", re.compile(r"(?:^|/)\w*guid$")),
)
"""Files that hold nothing but one name."""

_PACKAGES = re.compile(
    r"(?:^|/)(?:dpkg-query|rpm[^/]*|python_\w+|pip[^/]*|conda[^/]*|apt-mark\w*)\.(?:txt|err)$|/var/log/(?:apt|dpkg)"
)
_VERSION_BEFORE = re.compile(
    r"(?:\bnvidia[-_]\S+|\bcu(?:dnn|blas|fft|rand|solver|sparse|da|file|pti)\S*|==|[><~!]=|\bv(?:er(?:sion)?)?\.?"
    r"|\b(?:release|firmware|driver|vbios|toolkit|build)\b)[\s:=\"',/({-]*$",
    re.IGNORECASE,
)
_VERSION_AFTER = re.compile(r"-\d+(?!\d*\.\d+\.)|[+~]\w|\.dist-info|-py|-cp3")


def whole_file(name: str) -> Kind | None:
    """The kind of a file's whole content, for those that hold nothing else."""
    return next((kind for kind, pattern in _WHOLE if pattern.search(name)), None)


def lists_packages(name: str) -> bool:
    """Whether a file is a list of packages, full of versions that look like addresses."""
    return bool(_PACKAGES.search(name))


def is_address(text: str) -> bool:
    """Whether a text is an IP address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_serial(text: str) -> bool:
    """Whether a text can be a serial number: not `N/A`, `0000`, or the words that makers leave in its place."""
    return any(letter in "123456789" for letter in text) and not re.match(r"to be filled|default", text, re.IGNORECASE)


def is_pseudonym(text: str) -> bool:
    """Whether a text was put there by masking."""
    return bool(re.fullmatch(r"(?:[a-z]+-\d+[:/@.]?)+", text.strip("\"'")))


def is_really(kind: Kind, value: str, match: re.Match[str]) -> bool:
    """Whether a match is what it looks like."""
    if kind == "ip":
        return _is_somebodys_address(value, match)
    if kind == "mac":
        return bool(set(value.lower()) - set("0:-") and set(value.lower()) - set("f:-"))
    if kind == "guid":
        return bool(set(value.lower()) - set("0:x"))
    if kind == "host":
        return value.lower() not in COMMON_HOSTS and not _PUBLIC.search(value) and not is_address(value)
    if kind == "serial":
        return is_serial(value)
    if kind == "secret":
        return not _NO_SECRET.fullmatch(value.strip("\"'"))
    return True


def _is_somebodys_address(value: str, match: re.Match[str]) -> bool:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified or value.startswith("255."):
        return False
    if address.version == 6:
        return True
    before, after = (
        match.string[max(0, match.start() - 60) : match.start()],
        match.string[match.end() : match.end() + 12],
    )
    return not (_VERSION_BEFORE.search(before) or _VERSION_AFTER.match(after))


def kept_prefix(kind: Kind, value: str) -> str:
    """What of an address says of which class it is, and nothing of whose."""
    if kind == "ip" and value.lower().startswith("fe80:"):
        return "fe80::"
    if kind == "ip" and value.lower().startswith("::ffff:"):
        return "::ffff:"
    return ""
