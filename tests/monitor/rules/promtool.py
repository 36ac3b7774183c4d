"""Writes test files for promtool from the cases: what each exporter would have shown, and what has to follow."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

import yaml

from stoker.monitor.rules.alerting import labels_of
from stoker.monitor.rules.tables import Alert, alerts, guide_alerts

HERE = Path(__file__).parent
DIALECTS: Mapping[str, Any] = yaml.safe_load((HERE / "dialects.yaml").read_text(encoding="utf-8"))
CASES: Mapping[str, Any] = yaml.safe_load((HERE / "cases.yaml").read_text(encoding="utf-8"))
ALERTS: Mapping[str, Alert] = {alert.alert: alert for alert in (*alerts(), *guide_alerts())}
MODEL = "NVIDIA A100-SXM4-80GB"
HEALTHY: Mapping[str, Any] = {
    "utilization": 0.93, "sm_active": 0.8, "tensor_active": 0.4, "memory_active": 0.5, "used": 50e9, "free": 30e9,
    "temperature": 60, "margin": 25, "power": 380, "limit": 400, "default_limit": 400, "energy": "1e6+24000x900",
    "clock": 1.4e9, "generation": 4, "generation_max": 4, "width": 16, "width_max": 16, "nvlink_broken": 0, "ecc": 0,
    "remap_failure": 0, "repair_pending": 0, "recovery": 0, "sample_age": 3, "lost": 0,
}  # fmt: skip
OF_TARGET = {"collector_ok", "up"}


@dataclass(frozen=True)
class Case:
    """One case in one dialect."""

    alert: str
    fires: bool
    dialect: str
    given: Mapping[str, Any]

    @property
    def step(self) -> int:
        """Minutes between two samples: coarser where hours pass."""
        return 5 if self.given["at"] >= 85 else 1

    @property
    def name(self) -> str:
        """Tells it from all others."""
        named = self.given.get("name", "")
        return (
            f"{self.alert} {'fires' if self.fires else 'is quiet'}{f', {named},' if named else ''} with {self.dialect}"
        )


def cases() -> Iterator[Case]:
    """Every case in every dialect that spells what it sets."""
    for alert, directions in CASES.items():
        for direction, listed in directions.items():
            for given in listed:
                for dialect in _dialects(ALERTS[alert], given):
                    yield Case(alert, direction == "fires", dialect, given)


def _dialects(alert: Alert, given: Mapping[str, Any]) -> Iterator[str]:
    if alert.scope in ("run", "mount"):  # told by stoker and by node_exporter, whose names stand in the case
        yield "stoker"
        return
    needed = {name for name, value in given.get("set", {}).items() if value is not None} - OF_TARGET
    for name, dialect in DIALECTS.items():
        wanted = name in given.get("only", DIALECTS) and dialect["exporter"] not in alert.not_for
        if wanted and needed <= set(dialect["spelled"]):
            yield name


def rules_for(alert: Alert, files: Mapping[str, str]) -> str:
    """Of the rule files only the alert and what it rests on: promtool takes ten times as long with all of them."""
    rules = [rule for text in files.values() for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    wanted, found = set(alert.series), {rule["expr"] for rule in rules if rule.get("alert") == alert.alert}
    while found:
        wanted |= {name for expr in found for name in re.findall(r"\b(?:gpu|run|host):\w+", expr)}
        more = {rule["expr"] for rule in rules if rule.get("record") in wanted}
        found = more if not more <= found else set()
    kept = [rule for rule in rules if rule.get("record") in wanted or rule.get("alert") == alert.alert]
    return yaml.safe_dump({"groups": [{"name": "stoker", "rules": kept}]}, sort_keys=False, width=10000)


def file_for(rule_files: list[str], chosen: list[Case]) -> str:
    """A test file for `promtool test rules`; all cases have one step."""
    (step,) = {case.step for case in chosen}
    content = {"rule_files": rule_files, "evaluation_interval": f"{step}m", "tests": [_test(case) for case in chosen]}
    return yaml.safe_dump(content, sort_keys=False)


def quiet_file(rule_files: list[str], dialect: str, minutes: int) -> str:
    """A test file that says that no alert is even pending while all is well."""
    test = _test(Case("GpuLost", False, dialect, {"at": minutes}))
    test["promql_expr_test"][0]["expr"] = "ALERTS"
    return yaml.safe_dump({"rule_files": rule_files, "evaluation_interval": "1m", "tests": [test]}, sort_keys=False)


def together_file(rule_files: list[str], chosen: list[Case], queries: Mapping[str, float]) -> str:
    """A test file in which several exporters tell of one machine at once; `queries` are shown as one sample each."""
    test = _test(chosen[0])
    series = {one["series"]: one for case in chosen for one in _test(case)["input_series"]}
    test["input_series"] = list(series.values())
    test["promql_expr_test"] = [
        {"expr": expr, "eval_time": f"{chosen[0].given['at']}m", "exp_samples": [{"labels": "{}", "value": value}]}
        for expr, value in queries.items()
    ]
    return yaml.safe_dump({"rule_files": rule_files, "evaluation_interval": "1m", "tests": [test]}, sort_keys=False)


def _test(case: Case) -> dict[str, Any]:
    dialect, minutes = DIALECTS[case.dialect], case.given["at"] + 1
    every = {name: values.split()[:: case.step] for name, values in _series(case, dialect, minutes)}
    query = f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}'
    return {
        "name": case.name,
        "interval": f"{case.step}m",
        "input_series": [{"series": name, "values": " ".join(values)} for name, values in every.items()],
        "promql_expr_test": [
            {
                "expr": query,
                "eval_time": f"{case.given['at']}m",
                "exp_samples": [{"labels": _expected(case, dialect), "value": 1}] if case.fires else [],
            }
        ],
    }


def _expected(case: Case, dialect: Mapping[str, Any]) -> str:
    """The alert with all of its labels: none missing, none too many."""
    alert = ALERTS[case.alert]
    known = {
        "alertname": alert.alert, "alertstate": "firing", "severity": alert.severity, "scope": alert.scope,
        "node": "gpu-1", "gpu": "3", "uuid": _uuid(3), "model": dialect.get("model", case.given.get("model", MODEL)),
        "run": "r", "folder": "/runs/r",
        **dict(re.findall(r'(\w+)="([^"]*)"', dialect["target"].replace("$node", "gpu-1"))),
        **case.given.get("labels", {}),
    }  # fmt: skip
    wanted = ("alertname", "alertstate", "severity", "scope", *labels_of(alert))
    return "ALERTS{" + ", ".join(f'{name}="{known[name]}"' for name in wanted if known[name]) + "}"


def _uuid(gpu: int) -> str:
    return f"GPU-00000000-0000-0000-0000-00000000000{gpu}"


def _series(case: Case, dialect: Mapping[str, Any], minutes: int) -> Iterator[tuple[str, str]]:
    given = case.given
    target = dialect["target"].replace("$node", "gpu-1")
    of_target = {"up": 1, "collector_ok": 1} | {k: v for k, v in given.get("set", {}).items() if k in OF_TARGET}
    yield f"up{{{target}}}", _values(of_target["up"], 1, minutes)
    for series, quantity in dialect.get("always", {}).items():
        yield f"{series}{{{target}}}", _values(of_target[quantity], 1, minutes)
    yield from _gpu(3, given.get("set", {}), dialect, given, minutes, given.get("gone"))
    for peer in range(4, 4 + given.get("peers", 1)):
        yield from _gpu(peer, given.get("peer", {}), dialect, given, minutes, given.get("peer_gone"))
    if "xid" in given:
        code, minute = given["xid"]
        yield from _xid(code, minute, dialect, given, minutes)
    for raw in given.get("raw", ()):
        series, values = re.fullmatch(r"(\w+(?:\{.*?\})?) (.*)", raw).groups()  # type: ignore[union-attr]
        labels = dialect["labels"] if "DCGM" in series else dialect["target"]
        if "_run_" in series and "run=" not in series:
            labels += ', run="r", folder="/runs/r"'
        written = series if series.startswith("up") else _with_labels(series, labels, 3, given)
        yield written, _values(values, 1, minutes)


def _gpu(
    gpu: int, changed: Mapping[str, Any], dialect: Mapping[str, Any], given: Mapping[str, Any], minutes: int, gone: Any
) -> Iterator[tuple[str, str]]:
    """All series of one GPU, until the minute at which it is gone."""
    quantities = {**HEALTHY, **{name: value for name, value in changed.items() if name not in OF_TARGET}}
    if "identity" in dialect:
        yield _with_labels(dialect["identity"], dialect["labels"], gpu, given), _values(1, 1, minutes, gone)
    for name, value in quantities.items():
        if name in dialect["spelled"] and value is not None:
            spelled = dialect["spelled"][name]
            series, factor = spelled if isinstance(spelled, list) else (spelled, 1)
            yield _with_labels(series, dialect["labels"], gpu, given), _values(value, factor, minutes, gone)


def _xid(
    code: int, minute: int, dialect: Mapping[str, Any], given: Mapping[str, Any], minutes: int
) -> Iterator[tuple[str, str]]:
    for series, kind in dialect["xid"]:
        if kind == "code":
            yield _with_labels(series, dialect["labels"], 3, given), _values(f"0x{minute} {code}x{minutes}", 1, minutes)
        elif kind == "count":
            shown = f"_x{minute} 1x5 _x{minutes}"
            yield _with_labels(f'{series}{{xid="{code}"}}', dialect["labels"], 3, given), _values(shown, 1, minutes)
        else:
            shown = f"_x{minute} {minute * 60}x{minutes}"
            yield _with_labels(f'{series}{{xid="{code}"}}', dialect["labels"], 3, given), _values(shown, 1, minutes)


def _with_labels(series: str, labels: str, gpu: int, given: Mapping[str, Any]) -> str:
    name, _, own = series.rstrip("}").partition("{")
    template = Template(f"{labels}, {own}" if own else labels)
    uuid = _uuid(gpu)
    filled = template.substitute(
        gpu=gpu, uuid=uuid, bare=uuid.removeprefix("GPU-"), model=given.get("model", MODEL), node="gpu-1"
    )
    return f"{name}{{{filled}}}"


def _values(value: Any, factor: float | str, minutes: int, gone: int | None = None) -> str:
    """Sample by sample, in promtool's notation."""
    numbers = [number if number is None else _scaled(number, factor) for number in _numbers(str(value), minutes)]
    if gone is not None:
        numbers[gone:] = [None] * (len(numbers) - gone)
    began = next((index for index, number in enumerate(numbers) if number is not None), minutes)
    absent = ("_" if index < began else "stale" for index in range(minutes))
    return " ".join(word if n is None else f"{n:.15g}" for n, word in zip(numbers, absent, strict=True))


def _scaled(number: float, factor: float | str) -> float:
    return 1 - number if factor == "not" else number * float(factor)


def _numbers(text: str, minutes: int) -> list[float | None]:
    numbers: list[float | None] = []
    parts = text.split()
    for part in parts:
        shape = re.fullmatch(r"(_|-?[\d.e]+(?:(?<=e)\d+)?|NaN|Inf)(?:\+(-?[\d.e]+))?(?:x(\d+))?", part)
        assert shape, part
        first, growth, count = shape[1], float(shape[2] or 0), int(shape[3] or minutes)
        start = None if first == "_" else float(first)
        numbers += [
            None if start is None else start + growth * i if math.isfinite(start) else start for i in range(count)
        ]
    assert len(numbers) >= minutes, f"{text}: {len(numbers)} values for {minutes} minutes"
    return numbers[:minutes]
