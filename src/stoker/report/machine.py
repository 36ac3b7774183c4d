"""The report for programs: what `stoker report --format json` prints."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from stoker.report.advice import time_sentence
from stoker.report.compare import ABSENT, differing_settings
from stoker.report.curve import Point
from stoker.report.predicted import as_json, comparisons
from stoker.report.runfolder import Failure, RunRecord
from stoker.report.summary import MetricFigures, summarize

FORMAT = 1
"""Rises when a key changes its meaning or goes; new keys may come without."""

Json = dict[str, object]


def report_json(records: Sequence[RunRecord]) -> str:
    """The figures of runs as JSON, strictly: what is unknown or not finite is null.

    ```
    {"format": 1,
     "runs": [{
       "name": text, "path": text, "what": text,
       "state": "finished" | "stopped" | "failed" | "unfinished",
       "steps": int, "epoch": number from 0, "samples": number,
       "wall_seconds": number, "restarts": int,
       "throughput": {"steady": number, "mean": number},            samples/s
       "world_size": int, "devices": text, "precision": text,
       "time": [{"phase": text, "seconds": number, "share": 0 to 1}],
       "advice": text,
       "main": {metric},                                            that of the headline
       "metrics": [{"name": text, "split": "training" | "evaluation", "lower_is_better": bool,
                    "last": {"step": number, "value": number},
                    "best": {"step": number, "value": number},
                    "not_finite": int}],                            how many values were not
       "skipped_steps": int, "repeated_steps": int,
       "checkpoints": [step], "model": bool,
       "predicted": [{"name": text, "unit": "seconds" | "bytes",        empty unless the run was planned
                      "expected": number, "low": number, "high": number, "measured": number}],
       "failure": {"kind": text, "message": text, "rank": int, "step": int, "time": unix seconds,
                   "findings": [Finding]},                          null unless the state is failed
       "notices": [text]}],
     "differing": {"dotted.setting": [text as in YAML, one per run; null where a run has none]}}
    ```
    """
    differing = {
        key: [None if value == ABSENT else value for value in values]
        for key, values in differing_settings(records).items()
    }
    whole = {"format": FORMAT, "runs": [_run(record) for record in records], "differing": differing}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False)


def _run(record: RunRecord) -> Json:
    summary = summarize(record)
    return {
        "name": summary.name,
        "path": summary.path,
        "what": summary.what,
        "state": summary.state,
        "steps": summary.steps,
        "epoch": summary.epoch,
        "samples": summary.samples,
        "wall_seconds": summary.wall_seconds,
        "restarts": summary.restarts,
        "throughput": {"steady": summary.steady_rate, "mean": summary.mean_rate},
        "world_size": summary.world_size,
        "devices": summary.devices,
        "precision": summary.precision,
        "time": [asdict(spent) for spent in summary.phases],
        "advice": time_sentence(summary.phases, record.spec, record.environment),
        "main": _metric(summary.main, record) if summary.main else None,
        "metrics": [_metric(metric, record) for metric in summary.metrics],
        "skipped_steps": record.metrics.skipped,
        "repeated_steps": record.metrics.repeated,
        "checkpoints": list(record.checkpoints),
        "model": record.has_model,
        "predicted": [as_json(comparison) for comparison in comparisons(record)],
        "failure": _failure(record.failure) if record.failure and summary.state == "failed" else None,
        "notices": list(summary.notices),
    }


def _metric(metric: MetricFigures, record: RunRecord) -> Json:
    curves = record.evaluations.curves if metric.split == "evaluation" else record.metrics.curves
    return {
        "name": metric.name,
        "split": metric.split,
        "lower_is_better": metric.lower_is_better,
        "last": _point(metric.last),
        "best": _point(metric.best) if metric.best else None,
        "not_finite": curves[metric.name].bad,
    }


def _point(point: Point) -> Json:
    return {"step": point.step, "value": point.value if math.isfinite(point.value) else None}


def _failure(failure: Failure) -> Json:
    return {
        "kind": failure.kind,
        "message": failure.message,
        "rank": failure.rank,
        "step": failure.step,
        "time": failure.time,
        "findings": [finding.to_json() for finding in failure.findings],
    }
