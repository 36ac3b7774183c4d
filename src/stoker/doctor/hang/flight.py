"""Dumps of PyTorch's flight recorder: the last collectives of each rank.

A dump is a pickle of plain values (dictionaries, lists, numbers, texts), or the same as JSON. A pickle can run any
code when it is read, so everything but plain values is refused here. Fields: `version`, `pg_config`, `pg_status`, and
`entries`, each with `process_group`, `collective_seq_id`, `profiling_name`, `input_sizes`, `state` and `frames`
(torch/csrc/distributed/c10d/FlightRecorder.hpp, version 2.10 of the format in torch 2.14).
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MAX_BYTES = 1 << 28
VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Where dumps go: this with the rank behind it. The second is the older name."""


@dataclass(frozen=True)
class Entry:
    """One collective that a rank has entered."""

    group: str
    number: int
    operation: str
    sizes: str
    state: str
    place: str


@dataclass(frozen=True)
class Dump:
    """What one rank recorded.

    Attributes:
        rank: Which.
        source: The file.
        entries: Its collectives in order.
        members: Ranks of each process group, as far as it says.
    """

    rank: int
    source: str
    entries: tuple[Entry, ...]
    members: Mapping[str, tuple[int, ...]]


class _PlainValues(pickle.Unpickler):
    """Reads no pickle that names a class or a function."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}, and only plain values are read")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError(f"it points to {pid} outside of itself, and only plain values are read")


def prefixes(environ: Mapping[str, str]) -> list[str]:
    """Where the ranks of a job with these variables put their dumps, the likeliest first."""
    home = environ.get("HOME", "")
    cache = environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if home else "")
    set_by_user = [environ[name] for name in VARIABLES if environ.get(name)]
    default = [f"{cache}/torch/comm_lib_trace_rank_"] if cache else []
    return [*set_by_user, *default, "/tmp/nccl_trace_rank_"]


def find_dumps(prefix: str) -> list[tuple[int, Path]]:
    """Rank and path of each dump, by rank."""
    start = Path(prefix)
    pattern = re.compile(re.escape(start.name) + r"(\d+)(?:\.json)?$")
    try:
        found = [(match, path) for path in start.parent.iterdir() if (match := pattern.fullmatch(path.name))]
    except OSError:
        return []
    return sorted((int(match[1]), path) for match, path in found)


def read_dump(path: Path, rank: int) -> Dump | str:
    """A dump, or a sentence why it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            return f"{path} is larger than any dump ({MAX_BYTES >> 20} MiB) and was left alone"
        data = path.read_bytes()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    try:
        value = json.loads(data) if data.lstrip()[:1] == b"{" else _PlainValues(io.BytesIO(data)).load()
        return dump_of(value, rank, str(path))
    except pickle.UnpicklingError as error:
        return f"{path} is no plain flight recorder dump: {error}"
    except Exception as error:  # a damaged pickle can raise anything
        return f"{path} is damaged or cut off ({type(error).__name__})"


def dump_of(value: Mapping[str, Any], rank: int, source: str) -> Dump:
    """Pick out what is needed; raises on any other form."""
    members: dict[str, tuple[int, ...]] = {}
    for name, config in value.get("pg_config", {}).items():
        text = str(config["ranks"])
        members[str(config.get("name") or name)] = tuple(map(int, re.findall(r"\d+", text)))
    entries = [_entry(one) for one in value["entries"] if not one.get("is_p2p")]
    return Dump(rank, source, tuple(entries), members)


def _entry(one: Mapping[str, Any]) -> Entry:
    frames: Sequence[Mapping[str, Any]] = one.get("frames") or ()
    own = next((frame for frame in frames if "/torch/" not in str(frame["filename"])), None)
    place = f"{own['name']} ({str(own['filename']).rpartition('/')[2]}:{own['line']})" if own else ""
    return Entry(
        group=str(one["process_group"][0]),
        number=int(one["collective_seq_id"]),
        operation=str(one["profiling_name"]),
        sizes=str(one["input_sizes"]),
        state=str(one["state"]),
        place=place,
    )


@dataclass(frozen=True)
class Comparison:
    """How the ranks stand in one process group.

    Attributes:
        group: Its name.
        behind: Ranks that have not entered the newest collective, with the last one they entered.
        newest: The newest collective, as the furthest rank has it.
        differing: At the first number where the ranks entered different collectives: what each entered.
        undumped: Members without a dump.
    """

    group: str
    behind: Mapping[int, Entry | None]
    newest: Entry
    differing: Mapping[int, Entry]
    undumped: tuple[int, ...]


def compare(dumps: Iterable[Dump]) -> list[Comparison]:
    """Compare the ranks' last collectives, group by group."""
    dumps = list(dumps)
    groups = sorted({entry.group for dump in dumps for entry in dump.entries})
    return [_compare(group, dumps) for group in groups]


def _compare(group: str, dumps: Sequence[Dump]) -> Comparison:
    own = {dump.rank: {entry.number: entry for entry in dump.entries if entry.group == group} for dump in dumps}
    expected = {rank for dump in dumps for rank in dump.members.get(group, dump.members.get("", ()))}
    newest = max((entry for entries in own.values() for entry in entries.values()), key=lambda entry: entry.number)
    last = {rank: max(entries.values(), key=lambda one: one.number, default=None) for rank, entries in own.items()}
    members = {rank: one for rank, one in last.items() if one is not None or rank in expected}
    behind = {rank: one for rank, one in members.items() if one is None or one.number < newest.number}
    return Comparison(group, behind, newest, _first_difference(own), tuple(sorted(expected - set(own))))


def _first_difference(own: Mapping[int, Mapping[int, Entry]]) -> dict[int, Entry]:
    numbers = sorted({number for entries in own.values() for number in entries})
    for number in numbers:
        entered = {rank: entries[number] for rank, entries in own.items() if number in entries}
        if len({one.operation for one in entered.values()}) > 1:
            return entered
    return {}
