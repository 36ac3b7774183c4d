"""From a run folder to findings: the failure through the log reader, the figures through the checks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoker.doctor.parts import diagnose_parts
from stoker.doctor.render import render_findings
from stoker.doctor.runs.checks import CHECKS
from stoker.doctor.runs.facts import RunFacts, read_facts
from stoker.doctor.told import finding_of
from stoker.finding import Finding
from stoker.report.rows import as_int, as_list, as_mapping, as_text

LOG_TAIL = 1 << 20
"""Bytes read from the end of each rank's log."""

_WORDS = {
    "en": {
        "finished": "{run} finished after step {step}.",
        "stopped": "{run} was told to stop ({reason}) after step {step}, and saved: the same command continues it.",
        "failed": "{run} failed; the last step known is {step}.",
        "running": "{run} is running; the last step known is {step}.",
        "gone": "{run} ended without a word; the last step known is {step}.",
        "unknown": "{run} has no end; whether it still runs cannot be seen from here. The last step known is {step}.",
        "well": "Nothing wrong found.",
    },
    "zh": {
        "finished": "{run} 已完成，共 {step} 步。",
        "stopped": "{run} 在第 {step} 步之后按要求停止（{reason}），状态已保存：用同一条命令即可继续。",
        "failed": "{run} 失败；已知的最后一步是 {step}。",
        "running": "{run} 正在运行；已知的最后一步是 {step}。",
        "gone": "{run} 没有留下任何记录就结束了；已知的最后一步是 {step}。",
        "unknown": "{run} 没有结束记录，从这里看不出它是否还在运行；已知的最后一步是 {step}。",
        "well": "没有发现问题。",
    },
}


@dataclass(frozen=True)
class RunDiagnosis:
    """The answer to one run.

    Attributes:
        folder: The run folder.
        state: See `RunFacts.state`.
        step: The last step that is known; None without one.
        reason: What stopped it, in its own words: a signal's name.
        findings: Likeliest first; empty if nothing wrong was found.
        failures: Those of them that say why it failed.
        failed_rank: The rank that `failure.json` is of; None without one.
        language: Of the findings' texts.
        notes: Sentences about what could not be read.
    """

    folder: Path
    state: str
    step: int | None
    reason: str
    findings: tuple[Finding, ...]
    failures: tuple[Finding, ...] = ()
    failed_rank: int | None = None
    language: str = "en"
    notes: tuple[str, ...] = ()

    @property
    def is_wrong(self) -> bool:
        """Whether something was found that needs mending."""
        return bool(self.findings)

    def text(self) -> str:
        """For people: how the run ended, then what is wrong with it."""
        words = [_WORDS[self.language][self.state].format(run=self.folder, step=self.step, reason=self.reason or "?")]
        words += self.notes
        if self.findings:
            words += ["", render_findings(self.findings, self.language)]
        else:
            words.append(_WORDS[self.language]["well"])
        return "\n".join(words)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "schema": 1,
            "run": str(self.folder),
            "state": self.state,
            "step": self.step,
            "reason": self.reason,
            "findings": [finding.to_json() for finding in self.findings],
            "notes": list(self.notes),
        }


def diagnose_run(
    folder: Path,
    *,
    said: str = "",
    seen: tuple[bool | None, float | None] | None = None,
    language: str = "en",
) -> RunDiagnosis:
    """Say what is wrong with a run.

    Args:
        folder: The run folder.
        said: What the command itself said about the failure, such as which signal ended a rank.
        seen: Of a copied run folder, see `read_facts`.
        language: `en` or `zh`.

    Raises:
        UserError: `folder` is no run folder.
    """
    facts = read_facts(folder, seen=seen)
    noticed = [found for check in CHECKS if (found := check(facts)) is not None]
    failure = _failure(facts, said, language)
    silent = any(one.cause in ("run-stalled", "run-ended-without-a-word") for one in noticed)
    findings = [*failure, *(finding_of(one.cause, one.confidence, one.evidence, language) for one in noticed)]
    if silent:  # what the run's end says comes before what its logs mention
        findings.sort(key=lambda one: not one.cause.startswith("run-"))
    last = facts.events[-1] if facts.events else None
    steps = [one.step for one in facts.events if one.step is not None]
    steps += [int(facts.steps.step[-1])] if len(facts.steps) else []
    return RunDiagnosis(
        folder=folder,
        state=facts.state,
        step=max(steps, default=None),
        reason=last.message if last is not None and facts.state == "stopped" else "",
        findings=tuple(findings),
        failures=tuple(failure),
        failed_rank=None if facts.failure is None else facts.failure.rank,
        language=language,
        notes=facts.notes,
    )


def record_findings(folder: Path, findings: Sequence[Finding]) -> bool:
    """Write findings into `failure.json`, where the report reads them; False if there is none to write into."""
    file = folder / "failure.json"
    aside = file.with_name(".failure.json.findings")
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        told["findings"] = [finding.to_json() for finding in findings]
        aside.write_text(json.dumps(told, indent=1), encoding="utf-8")
        aside.replace(file)
    except (OSError, ValueError, TypeError):
        return False
    return True


def _failure(facts: RunFacts, said: str, language: str) -> Sequence[Finding]:
    """What the log reader says of a run that broke; a healthy one's warnings are left alone."""
    if facts.state in ("finished", "stopped") and not said:
        return ()
    parts = list(_parts(facts, said))
    return diagnose_parts(parts, context=_context(facts), language=language).findings if parts else ()


def _parts(facts: RunFacts, said: str) -> Iterator[tuple[str, str]]:
    if facts.failure is not None:
        told = facts.failure.traceback or f"{facts.failure.kind}: {facts.failure.message}"
        if told.strip():
            yield "failure.json", told
    if said.strip() and (facts.failure is None or said not in facts.failure.message):
        yield "stoker train", said
    for log in facts.logs:
        if text := _tail(log):
            yield f"logs/{log.name}", text


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, path.stat().st_size - LOG_TAIL))
            return stream.read(LOG_TAIL).decode("utf-8", "replace")
    except OSError:
        return ""


def _context(facts: RunFacts) -> str:
    """What the environment adds, in the words in which a person would."""
    environment = facts.environment
    devices = [as_text(device) for device in as_list(environment.get("devices"))]
    named = [f"{devices.count(name)}x {name}" for name in dict.fromkeys(devices) if name and name != "cpu"]
    if (driver := as_text(environment.get("nvidia_driver"))) and driver != "None":
        named.append(f"driver {driver}")
    if torch := as_text(as_mapping(environment.get("packages")).get("torch")):
        named.append(f"torch {torch}")
    if (ranks := as_int(environment.get("world_size"))) is not None:
        named.append(f"{ranks} ranks")
    return ", ".join(named)
