"""RunStatus: what a run says of itself while it goes, and where on the machine it says so.

`stoker train` writes it, `stoker monitor` reads it; neither knows more of the other. It is described in
docs/reference/run-folder.md.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

RunState = Literal["starting", "running", "finished", "stopped", "failed", "killed"]
"""How a run stands. `killed`: its process is gone without a word; only who looks at it can say so."""
ENDED: frozenset[RunState] = frozenset({"finished", "stopped", "failed", "killed"})

SYSTEM_REGISTRY = Path("/run/stoker/runs")
"""Where the runs of all users meet, if the administrator made it; see `stoker monitor unit`."""
LARGEST_FILE = 64 * 1024
"""Bytes; a status file is about 1 KiB, and others than its owner should not be able to exhaust a reader."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """One run at one moment. None and the empty string: not known, or not yet.

    Attributes:
        folder: The run folder, as a full path.
        pid: Of rank 0, as its own pid namespace counts.
        pid_start: When that process started, in clock ticks since boot: tells it from a later one with its number.
        launcher: Process that started all ranks of this machine; None where rank 0 is alone.
        written_time: Unix time of this status.
        written_clock: The same by the machine's steady clock (CLOCK_MONOTONIC): does not jump, and is shared by all
            processes since boot. So are the other clocks.
        step_clock: When the last step ended, or the run began.
        checkpoint_clock: When the last checkpoint was begun; None where none are asked for.
        step_seconds: Mean over the last steps; so are the rates.
    """

    folder: str
    state: RunState
    pid: int
    pid_start: int
    boot_id: str
    launcher: int | None = None
    hostname: str = ""
    task: str = ""
    world_size: int | None = None
    strategy: str = ""
    precision: str = ""
    micro_batch_size: int | None = None
    slurm_job: str = ""
    activity: str = ""
    started_time: float | None = None
    ended_time: float | None = None
    written_time: float = 0.0
    written_clock: float = 0.0
    step_clock: float = 0.0
    checkpoint_clock: float | None = None
    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    progress_ratio: float | None = None
    loss: float | None = None
    samples: int | None = None
    samples_per_second: float | None = None
    step_seconds: float | None = None
    data_wait_ratio: float | None = None
    mfu_ratio: float | None = None
    finding: str = ""
    finding_title: str = ""


def registries(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where runs are registered: `STOKER_RUNS` alone if it is set, else the machine's place and the user's own."""
    if chosen := environ.get("STOKER_RUNS"):
        return [Path(chosen)]
    state = environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")  # noqa: PTH111  # never raises
    return [SYSTEM_REGISTRY, Path(state) / "stoker" / "runs"]


def registry_for_writing(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The first of `registries` that can be written, made if need be; None if there is none.

    The machine's place is the administrator's to make: it is only used where it is.
    """
    for place in registries(environ):
        if place != SYSTEM_REGISTRY:
            with contextlib.suppress(OSError):
                place.mkdir(parents=True, exist_ok=True)
        if place.is_dir() and os.access(place, os.W_OK):
            return place
    return None


def registry_name(folder: str) -> str:
    """File name of a run folder's entry: a run that continues replaces its own."""
    return hashlib.sha256(folder.encode()).hexdigest()[:20] + ".json"


def write_status(status: RunStatus, places: Sequence[Path]) -> None:
    """Write a status to each file, aside and renamed. A place that cannot be written is passed over.

    JSON has no word for what is no finite number: that becomes null.
    """
    value = asdict(status)
    finite = {key: None if isinstance(item, float) and not math.isfinite(item) else item for key, item in value.items()}
    text = json.dumps(finite)
    for place in places:
        aside = place.with_name(f".{place.name}.{status.pid}")
        with contextlib.suppress(OSError):
            aside.write_text(text, encoding="utf-8")
            aside.replace(place)


def read_status(path: Path) -> RunStatus:
    """Read a status; keys that this version does not know are passed over.

    Raises:
        OSError: The file cannot be read.
        ValueError: It holds no status.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as stream:
        text = stream.read(LARGEST_FILE)
    try:
        value: Any = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"{path}: nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: not an object")
    known = {field.name: str(field.type) for field in fields(RunStatus)}
    for name, item in value.items():
        if name in known and not _fits(known[name], item):
            raise ValueError(f"{path}: {name}: {item!r}")
    try:
        return RunStatus(**{name: item for name, item in value.items() if name in known})
    except TypeError as error:
        raise ValueError(f"{path}: {error}") from error


def _fits(kind: str, item: object) -> bool:
    """Whether a value has the type of its field, as it is written above."""
    if kind == "RunState":
        return item in get_args(RunState)
    if item is None:
        return kind.endswith("| None")
    if isinstance(item, bool):
        return False
    if kind.startswith("float"):
        return isinstance(item, int | float)
    return isinstance(item, int if kind.startswith("int") else str)


@dataclass(frozen=True)
class ProcessIdentity:
    """What tells a process of this machine from every other one, also a later one.

    Attributes:
        pid: Its number.
        start: When it started, in clock ticks since boot.
    """

    pid: int
    start: int


def process_identity(pid: int) -> ProcessIdentity | None:
    """Of a running process; None if there is none of this number. A zombie has ended: it counts as none.

    Source: proc_pid_stat(5): the name in brackets may hold anything, so fields are counted behind the last one.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    rest = text.rpartition(")")[2].split()
    return None if rest[0] in "ZX" else ProcessIdentity(pid, int(rest[19]))


def boot_id() -> str:
    """Another one after each boot; empty where the kernel does not tell."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
