"""The answer to one bundle, and to several: checks, log reader and run, as on the machine itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stoker.doctor.bundle.compare import Difference, differences, judge
from stoker.doctor.bundle.form import RUN, Manifest
from stoker.doctor.bundle.unpack import Bundle, opened
from stoker.doctor.checks.run import Examination
from stoker.doctor.checks.run import examine as examine_snapshot
from stoker.doctor.checks.show import render_text
from stoker.doctor.parts import diagnose_parts
from stoker.doctor.render import render_findings
from stoker.doctor.runs import RunDiagnosis, diagnose_run
from stoker.errors import Mistake, UserError
from stoker.finding import Finding
from stoker.host.snapshot import Snapshot, read_snapshot
from stoker.host.tree import Tree

LOGS = ("var/log/*.log", "var/log/nvidia-dcgm/*.log", "var/lib/dkms/nvidia/*/build/make.log")
"""Logs of the recorded tree that go through the log reader; the kernel's goes through its own checks."""


@dataclass(frozen=True)
class BundleAnswer:
    """What is wrong with the machine that a bundle is of.

    Attributes:
        name: The file.
        manifest: What the bundle says of itself.
        examination: The answer of the checks.
        logs: Findings of the log reader.
        run: The answer to the run, if the bundle holds one.
        language: Of the texts.
    """

    name: str
    manifest: Manifest
    examination: Examination
    logs: tuple[Finding, ...]
    run: RunDiagnosis | None
    language: str = "en"

    @property
    def is_wrong(self) -> bool:
        """Whether anything needs mending."""
        return bool(self.examination.of("fail") or self.logs or (self.run is not None and self.run.is_wrong))

    def text(self) -> str:
        """For people."""
        by = f"stoker {self.manifest.stoker}" if self.manifest.stoker else "stoker"
        root = "" if self.manifest.root else ", not as root"
        parts = [f"{self.name}: taken {self.manifest.taken or 'at an unknown time'} by {by}{root}"]
        parts.append(render_text(self.examination))
        if self.logs:
            parts.append("In its logs:\n\n" + render_findings(self.logs, self.language))
        if self.run is not None:
            parts.append("The run:\n\n" + self.run.text())
        return "\n\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "schema": 1,
            "bundle": self.name,
            "machine": self.examination.to_json(),
            "logs": [finding.to_json() for finding in self.logs],
            "run": None if self.run is None else self.run.to_json(),
        }


@dataclass(frozen=True)
class Comparison:
    """What several bundles show together.

    Attributes:
        bundles: The answer to each.
        differences: Where they differ.
        findings: What follows from that, the oddest machine first.
        language: Of the texts.
    """

    bundles: tuple[BundleAnswer, ...]
    differences: tuple[Difference, ...]
    findings: tuple[Finding, ...]
    language: str = "en"

    @property
    def is_wrong(self) -> bool:
        """Whether they differ, or one of them is broken."""
        return bool(self.findings or any(one.is_wrong for one in self.bundles))

    def text(self) -> str:
        """For people: the differences, then what is broken in each."""
        lines = [f"{len(self.bundles)} machines compared."]
        lines += [f"  {one}" for one in self.differences] or ["They differ in nothing that was compared."]
        if self.findings:
            lines += ["", render_findings(self.findings, self.language)]
        for one in self.bundles:
            failed = [verdict.finding for verdict in one.examination.of("fail")]
            found = [*failed, *one.logs, *(one.run.findings if one.run is not None else ())]
            lines += ["", f"{one.name}:" if found else f"{one.name}: nothing failed"]
            lines += [f"  {finding.title} [{finding.cause}]" for finding in found if not finding.follows_from]
        return "\n".join([*lines, "", "All of one machine: stoker doctor BUNDLE"])

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return {
            "schema": 1,
            "differences": [
                {"what": one.what, "values": dict(one.values), "odd": list(one.odd)} for one in self.differences
            ],
            "findings": [finding.to_json() for finding in self.findings],
            "bundles": [one.to_json() for one in self.bundles],
        }


def diagnose_bundle(path: Path, language: str = "en") -> BundleAnswer:
    """Say what is wrong with the machine that a bundle is of.

    Raises:
        UserError: It is no bundle, of another version, or damaged.
    """
    return _diagnose(path, language)[0]


def compare_bundles(paths: Sequence[Path], language: str = "en") -> Comparison:
    """Compare the machines that several bundles are of.

    Raises:
        UserError: Some are no bundles; all are named.
    """
    answers: list[BundleAnswer] = []
    machines: dict[str, Snapshot] = {}
    mistakes: list[Mistake] = []
    for path, name in zip(paths, names_of(paths), strict=True):
        try:
            answer, machines[name] = _diagnose(path, language, name)
            answers.append(answer)
        except UserError as error:
            mistakes += error.mistakes
    if mistakes:
        raise UserError(*mistakes)
    found = differences(machines)
    return Comparison(tuple(answers), tuple(found), tuple(judge(found, language)), language)


def names_of(paths: Sequence[Path]) -> list[str]:
    """A short name for each file that tells it from the others: hosts are masked, and all called host-1.

    >>> names_of([Path("a/node1.tar.gz"), Path("b/node2.tar.gz")])
    ['node1', 'node2']
    """
    names = [path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz") for path in paths]
    return names if len(set(names)) == len(names) else [str(path) for path in paths]


def _diagnose(path: Path, language: str, name: str = "") -> tuple[BundleAnswer, Snapshot]:
    with opened(path) as bundle:
        machine = read_snapshot(Tree(bundle.machine)) if bundle.machine.is_dir() else Snapshot()
        parts = _logs(bundle)
        logs = diagnose_parts(list(parts.items()), language=language).findings if parts else ()
        run = _run(bundle, language)
        answer = BundleAnswer(name or path.name, bundle.manifest, examine_snapshot(machine), tuple(logs), run, language)
    return answer, machine


def _logs(bundle: Bundle) -> Mapping[str, str]:
    found = [path for pattern in LOGS for path in sorted(bundle.machine.glob(pattern))]
    return {f"/{path.relative_to(bundle.machine)}": path.read_text("utf-8", "replace") for path in found}


def _run(bundle: Bundle, language: str) -> RunDiagnosis | None:
    if bundle.run is None:
        return None
    seen = (bundle.manifest.run_alive, bundle.manifest.run_silent)
    return replace(diagnose_run(bundle.run, seen=seen, language=language), folder=Path(f"{bundle.name}:{RUN}"))
