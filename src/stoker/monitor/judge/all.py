"""All verdicts on a machine, the gravest first."""

from __future__ import annotations

from collections.abc import Iterator

from stoker.monitor.judge.gpus import judge_gpu
from stoker.monitor.judge.host import judge_host
from stoker.monitor.judge.limits import Limits, limits
from stoker.monitor.judge.runs import judge_run
from stoker.monitor.judge.verdict import Verdict
from stoker.monitor.watch import Moment

_ORDER = {"fail": 0, "warn": 1, "info": 2}


def judge(moment: Moment, thresholds: Limits | None = None) -> tuple[Verdict, ...]:
    """What is wrong now, the gravest first, and of equal ones the machine before its GPUs before its runs."""
    found = _all(moment, thresholds or limits())
    return tuple(sorted(found, key=lambda verdict: _ORDER[verdict.severity]))


def _all(moment: Moment, thresholds: Limits) -> Iterator[Verdict]:
    yield from judge_host(moment.sample, thresholds)
    for gpu in moment.sample.gpus:
        yield from judge_gpu(gpu, moment, thresholds)
    for run in moment.sample.runs:
        yield from judge_run(run, moment, thresholds)
