"""The edges of `stoker doctor hang`: looks at processes, asks RAS, reads dumps, and puts the answer together."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.doctor.hang import flight, ras, stacks
from stoker.doctor.hang.job import PROC, Rank, cpu_seconds, environ_of, ranks_of, state_of, waits_in
from stoker.doctor.hang.judge import Look, Suspicion, judge_dumps, judge_ras, judge_stacks
from stoker.doctor.render import render_findings
from stoker.doctor.runs.process import is_alive, start_time
from stoker.doctor.told import finding_of
from stoker.errors import UserError
from stoker.finding import Finding
from stoker.report.rows import as_int, as_text, read_mapping
from stoker.report.runfolder import check_run_folder

BETWEEN_LOOKS = 1.0
"""Seconds between two looks: who stands where it stood is stuck or slow, who moved is neither."""


@dataclass(frozen=True)
class HangAnswer:
    """What a live job showed.

    Attributes:
        looks: Each rank on this machine.
        world_size: Ranks of the whole job; None if unknown.
        findings: Likeliest first.
        not_seen: Sentences about what could not be asked.
        language: Of the findings' texts.
        saw_anything: Whether stacks, RAS or dumps were there at all.
    """

    looks: tuple[Look, ...]
    world_size: int | None
    findings: tuple[Finding, ...]
    not_seen: tuple[str, ...]
    language: str = "en"
    saw_anything: bool = True

    @property
    def is_wrong(self) -> bool:
        """Whether a cause was found."""
        return bool(self.findings)

    def text(self) -> str:
        """For people."""
        rows = [("rank", "pid", "state", "cpu", "stands in")]
        for look in self.looks:
            rank = "-" if look.rank.rank is None else str(look.rank.rank)
            busy = "-" if look.busy is None else f"{look.busy:.0%}"
            rows.append((rank, str(look.rank.pid), look.state, busy, look.place + (" (moving)" if look.moved else "")))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [
            "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows
        ]
        if self.world_size is not None and self.world_size > len(self.looks):
            lines.append(
                f"{self.world_size - len(self.looks)} more ranks of this job run on other machines: ask there too."
            )
        if self.findings:
            lines += ["", render_findings(self.findings, self.language)]
        elif self.saw_anything:
            lines += ["", "No rank is missing, as far as could be seen."]
        else:
            lines += ["", "Where the ranks stand could not be seen, so which one is missing is unknown."]
        return "\n".join(
            [*lines, *(["", "Not seen:"] if self.not_seen else []), *(f"  {one}" for one in self.not_seen)]
        )

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        ranks = [
            {
                "rank": look.rank.rank, "pid": look.rank.pid, "state": look.state, "busy": look.busy,
                "place": None if look.stack is None else look.place, "moved": look.moved,
                "frames": [str(frame) for frame in look.stack.frames] if look.stack else [],
            }
            for look in self.looks
        ]  # fmt: skip
        return {
            "schema": 1,
            "world_size": self.world_size,
            "ranks": ranks,
            "findings": [finding.to_json() for finding in self.findings],
            "not_seen": list(self.not_seen),
        }


def ask(pid: int, language: str = "en") -> HangAnswer:
    """Look at the job that a process belongs to.

    Raises:
        UserError: There is no such process, or it may not be looked at.
    """
    ranks = ranks_of(pid)
    not_seen: list[str] = []
    environ = ranks[0].environ or _environ(pid)
    looks = look_twice(ranks, not_seen)
    statuses, dumps = _ask_ras(environ, not_seen), _ask_recorder(ranks, environ, not_seen)
    suspicions = [*judge_stacks(looks), *judge_dumps(dumps), *(judge_ras(*statuses) if statuses else ())]
    best: dict[str, Suspicion] = {}
    for one in sorted(suspicions, key=lambda one: -one.confidence):
        best.setdefault(one.cause, one)
    findings = tuple(finding_of(one.cause, one.confidence, one.evidence, language) for one in best.values())
    saw_anything = bool(statuses or dumps or any(look.stack is not None for look in looks))
    return HangAnswer(tuple(looks), ranks[0].world_size, findings, tuple(not_seen), language, saw_anything)


def process_of_run(folder: Path) -> int:
    """The process of a run's first rank.

    Raises:
        UserError: It is no run folder, or its process is not here.
    """
    check_run_folder(folder)
    environment = read_mapping(folder / "environment.json", lambda _: None)
    pid, host = as_int(environment.get("pid")), as_text(environment.get("host"))
    if pid is None:
        raise UserError(f"{folder} does not say which process it belongs to: name one with --pid")
    written = (folder / "environment.json").stat().st_mtime
    alive = is_alive(environment, written, platform.node())
    if alive is None:
        raise UserError(f"{folder} is of a run on {host}, and this is {platform.node()}: ask there")
    if not alive:
        raise UserError(f"process {pid} of {folder} is gone: `stoker doctor {folder}` says how the run ended")
    return pid


def _environ(pid: int) -> dict[str, str]:
    try:
        return environ_of(pid)
    except OSError:
        return {}


def look_twice(
    ranks: Sequence[Rank],
    not_seen: list[str],
    *,
    proc: Path = PROC,
    read: Callable[[int, str], stacks.Stack | str] = stacks.read_stack,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Look]:
    """State, processor use and stack of each rank; says in `not_seen` what it could not see."""
    program = stacks.find_py_spy()
    if program is None:
        not_seen.append("stacks: py-spy is not installed (pip install py-spy); states and processor use only")
    before = [(cpu_seconds(one.pid, proc), read(one.pid, program) if program else None) for one in ranks]
    began = time.monotonic()
    sleep(BETWEEN_LOOKS)
    looks: list[Look] = []
    for one, (used, first) in zip(ranks, before, strict=True):
        passed = max(time.monotonic() - began, 1e-6)
        now, second = cpu_seconds(one.pid, proc), read(one.pid, program) if program else None
        if isinstance(second, str):
            not_seen.append(f"stack of {one.name}: {second}")
        looks.append(
            Look(
                rank=one,
                state=state_of(one.pid, proc),
                kernel=waits_in(one.pid, proc),
                busy=None if now is None or used is None else (now - used) / passed,
                stack=second if isinstance(second, stacks.Stack) else None,
                moved=isinstance(first, stacks.Stack) and isinstance(second, stacks.Stack) and first != second,
            )
        )
    return looks


def _ask_ras(environ: Mapping[str, str], not_seen: list[str]) -> tuple[ras.RasStatus, ras.RasStatus] | None:
    address = ras.address_of(environ.get("NCCL_RAS_ADDR", ""))
    answers: list[ras.RasStatus] = []
    for _ in range(2):
        answer = ras.query(address)
        if isinstance(answer, OSError):
            reason = answer.strerror or str(answer)
            not_seen.append(
                f"NCCL RAS: nothing to be had at {address[0]}:{address[1]} ({reason}); "
                "NCCL 2.24 and newer has it, gloo has not"
            )
            return None
        answers.append(ras.read_status(answer))
    return answers[0], answers[1]


def _ask_recorder(ranks: Sequence[Rank], environ: Mapping[str, str], not_seen: list[str]) -> list[flight.Comparison]:
    dumps: list[flight.Dump] = []
    prefixes = flight.prefixes(environ)
    started = min((began for one in ranks if (began := start_time(one.pid)) is not None), default=0.0)
    for prefix in prefixes:
        for rank, path in flight.find_dumps(prefix):
            if path.stat().st_mtime < started:
                continue  # of a job before this one
            dump = flight.read_dump(path, rank)
            if isinstance(dump, str):
                not_seen.append(f"flight recorder: {dump}")
            else:
                dumps.append(dump)
        if dumps:
            break
    if not dumps:
        not_seen.append(
            f"flight recorder: no dump of this job at {prefixes[0]}N; it is written on a time-out if the job was "
            "started with TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"
        )
        return []
    comparisons = flight.compare(dumps)
    not_seen += [
        f"flight recorder: no dump of ranks {', '.join(map(str, one.undumped))} of group {one.group}"
        for one in comparisons
        if one.undumped
    ]
    return comparisons
