"""A plan as text for a person and as plain data for a program."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import replace

from stoker.plan.versions.emit import driver_commands, driver_floor, emit, packages, pip_command, python_for
from stoker.plan.versions.model import Answer, DriverChoice, Plan, Verdict, VersionSet
from stoker.plan.versions.rules_driver import module_flavour
from stoker.plan.versions.rules_torch import partner_of

_WIDTH = 110


def to_data(plan: Plan) -> Answer:
    """The plan for `json.dumps`."""
    return {
        "possible": plan.chosen is not None,
        "set": dict(_parts(plan)),
        "install": {
            "driver": driver_commands(plan),
            "packages": packages(plan),
            "command": pip_command(plan) if plan.chosen else None,
        },
        "reasons": [_verdict(verdict) for verdict in plan.reasons],
        "why_not_newer": {release: [_verdict(verdict) for verdict in found] for release, found in plan.newer},
        "against": [_verdict(verdict) for verdict in plan.against],
        "alternatives": [
            {"if": other.given_up, "set": dict(_parts(replace(plan, chosen=other.chosen)))}
            for other in plan.alternatives
        ],
    }


def to_text(plan: Plan) -> str:
    """The plan for a person: the set, how to install it, why, and what to mind."""
    if plan.chosen is None:
        lines = ["Nothing works with all of this:", *_verdicts(plan.against)]
        if plan.alternatives:
            lines += ["", "The nearest that would work:"]
            for other in plan.alternatives:
                lines += _wrapped(f"if {other.given_up}: {_short(other.chosen)}")
        return "\n".join(lines) + "\n"
    lines = [f"{name:<16}{value}" for name, value in _parts(plan)]
    lines += ["", "Install", *(f"  {line}" for line in emit(plan, "commands").splitlines())]
    lines += ["", "Why", *_verdicts(verdict for verdict in plan.reasons if verdict.state == "holds")]
    if plan.cautions:
        lines += ["", "Mind", *_verdicts(plan.cautions)]
    if plan.newer:
        lines += ["", "Why not newer"]
        for release, found in plan.newer:
            lines += _wrapped(f"torch {release}: " + "; ".join(verdict.sentence for verdict in found[:1]))
    return "\n".join(lines) + "\n"


def _parts(plan: Plan) -> list[tuple[str, str]]:
    """Each part of the set and its version."""
    chosen = plan.chosen
    if chosen is None:
        return []
    parts: list[tuple[str, str]] = []
    if chosen.driver is not None:
        flavour = module_flavour(plan.request.devices, chosen.driver.branch.branch) if plan.request.devices else None
        parts.append(("driver branch", str(chosen.driver.branch.branch)))
        parts.append(("driver", f"{chosen.driver.version}{_known(chosen.driver)}"))
        parts += [("kernel modules", flavour)] if flavour else []
    wheel = chosen.torch
    if wheel is not None:
        known = {
            wheel.toolkit.upper().replace("ROCM", "ROCm"): wheel.version,
            "torch": wheel.patch,
            "index": wheel.index,
            "torchvision": partner_of(wheel, "vision"),
            "torchaudio": partner_of(wheel, "audio"),
            "cuDNN": wheel.cudnn,
            "NCCL": wheel.nccl,
            "triton": wheel.release.triton,
        }
        parts += [(name, str(value)) for name, value in known.items() if value]
    if chosen.tensorflow is not None:
        parts.append(("TensorFlow", str(chosen.tensorflow.tensorflow)))
        if wheel is None:
            parts += [
                ("CUDA", str(chosen.tensorflow.cuda)),
                ("cuDNN", chosen.tensorflow.cudnn_pin or str(chosen.tensorflow.cudnn)),
            ]
    floor = driver_floor(chosen)
    parts += [("driver at least", str(floor))] if floor else []
    return [*parts, ("Python", python_for(plan))]


def _known(driver: DriverChoice) -> str:
    if driver.assumed:
        return " (assumed: the newest of the branch)"
    return " (as it is)" if driver.installed else ""


def _short(chosen: VersionSet) -> str:
    parts = [chosen.torch.name] if chosen.torch else []
    parts += [f"TensorFlow {chosen.tensorflow.tensorflow}"] if chosen.tensorflow else []
    parts += [chosen.driver.name] if chosen.driver else []
    return ", ".join(parts)


def _verdict(verdict: Verdict) -> Answer:
    return {
        "state": verdict.state,
        "rule": verdict.rule,
        "sentence": verdict.sentence,
        "source": verdict.source,
    }


def _verdicts(verdicts: Iterable[Verdict]) -> list[str]:
    return [line for verdict in verdicts for line in _wrapped(f"{verdict.sentence} [{verdict.source}]")]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="  - ", subsequent_indent="    ", break_on_hyphens=False)
