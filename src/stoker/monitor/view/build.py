"""From what is known of a machine to what a screen shows of it. Pure: the same moment gives the same screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from stoker.monitor.judge import Verdict, judge
from stoker.monitor.judge.runs import gpus_of
from stoker.monitor.model import MachineSample, Run
from stoker.monitor.view.gpus import gpu_view, process_views
from stoker.monitor.view.host import host_readings, summary, what_it_is
from stoker.monitor.view.runs import GOING_ON, run_view
from stoker.monitor.view.screen import Badge, FindingView, GpuView, Level, RunView, Screen
from stoker.monitor.view.words import Words, anchor_of
from stoker.monitor.watch import HOST, Moment, gpu_subject, run_subject
from stoker.report.figures import clean

STANDSTILL = ("run-hung", "run-stalled")
"""What is wrong with a run and shows on its GPUs too: without it they would be called busy."""

_LEVEL: Mapping[str, Level] = {"fail": "bad", "warn": "warn", "info": "calm"}


def screen_of(moment: Moment, words: Words) -> Screen:
    """All that a screen shows.

    Args:
        moment: The newest sample, rates and the last hour.
        words: The texts of the reader's language.
    """
    sample = moment.sample
    verdicts = judge(moment)
    gpus = {gpu.gpu: _gpu(gpu.gpu, moment, words, verdicts) for gpu in sample.gpus}
    unseen = tuple(_unseen(sample, words))
    taken = datetime.fromtimestamp(sample.time, UTC)
    return Screen(
        host=clean(sample.hostname),
        simulated=sample.simulated,
        what=what_it_is(sample, words),
        verdict=_verdict_on_all(verdicts, words, seen=not unseen),
        taken=f"{taken:%H:%M:%S} UTC",
        taken_iso=taken.isoformat(timespec="seconds"),
        summary=summary(sample, words),
        findings=tuple(finding_view(verdict, words) for verdict in verdicts),
        unseen=unseen,
        runs=tuple(_run(run, gpus, moment, words, verdicts) for run in in_order(sample.runs)),
        free=tuple(view for index, view in gpus.items() if not _users(index, sample)),
        host_readings=host_readings(moment, words, _levels(HOST, verdicts)),
        processes=process_views(sample.gpus, words, {run.folder: clean(run.run) for run in sample.runs}),
    )


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Runs that go on first, in the order of their GPUs; then the ones that ended last."""

    def place(run: Run) -> tuple[bool, float, float]:
        if run.state in GOING_ON:
            return False, min((float(gpu) for gpu in run.gpus if gpu.isdigit()), default=1e9), run.started_time or 0.0
        return True, -(run.ended_time or 0.0), 0.0

    return sorted(runs, key=place)


def finding_view(verdict: Verdict, words: Words) -> FindingView:
    """A verdict in words."""
    values = {name: clean(str(value)) for name, value in verdict.values.items()}
    if isinstance(seconds := verdict.values.get("seconds"), float):
        values["span"] = words.span(seconds)
    said = (clean(verdict.said),) if verdict.said else ()
    key = f"finding.{verdict.cause}"
    return FindingView(
        anchor=anchor_of(f"{verdict.cause} {verdict.subject} {verdict.values.get('xid', '')}"),
        level=_LEVEL[verdict.severity],
        mark=words(f"severity.{verdict.severity}"),
        title=words(f"{key}.title", **values),
        evidence=(*said, *(clean(str(proof)) for proof in verdict.proofs)),
        meaning=words(f"{key}.meaning", **values),
        fix=words.steps(f"{key}.fix", **values),
    )


def _gpu(index: str, moment: Moment, words: Words, verdicts: Sequence[Verdict]) -> GpuView:
    gpu = next(one for one in moment.sample.gpus if one.gpu == index)
    subject = gpu_subject(gpu)
    badges = _badges(subject, verdicts, words) or [
        badge
        for run in moment.sample.runs
        if index in run.gpus and run.state in GOING_ON
        for badge in _badges(run_subject(run), [one for one in verdicts if one.cause in STANDSTILL], words)
    ]
    return gpu_view(gpu, words, moment, badges, _levels(subject, verdicts))


def _run(run: Run, gpus: Mapping[str, GpuView], moment: Moment, words: Words, verdicts: Sequence[Verdict]) -> RunView:
    subject = run_subject(run)
    views = [gpus[gpu.gpu] for gpu in gpus_of(run, moment.sample.gpus)] if run.state in GOING_ON else []
    return run_view(run, views, words, moment, _badges(subject, verdicts, words), _levels(subject, verdicts))


def _users(index: str, sample: MachineSample) -> bool:
    return any(index in run.gpus for run in sample.runs if run.state in GOING_ON)


def _badges(subject: str, verdicts: Sequence[Verdict], words: Words) -> list[Badge]:
    about = [(f"finding.{verdict.cause}.badge", verdict) for verdict in verdicts if verdict.subject == subject]
    return [
        Badge(clean(words(key, **verdict.values)), _LEVEL[verdict.severity]) for key, verdict in about if words.has(key)
    ]


def _levels(subject: str, verdicts: Sequence[Verdict]) -> dict[str, Level]:
    """The gravest first, so that it is not overwritten."""
    levels: dict[str, Level] = {}
    for verdict in verdicts:
        if verdict.subject == subject and verdict.quantity:
            levels.setdefault(verdict.quantity, _LEVEL[verdict.severity])
    return levels


def _verdict_on_all(verdicts: Sequence[Verdict], words: Words, *, seen: bool) -> Badge:
    """Well only where everything could be looked at."""
    wrong = [verdict for verdict in verdicts if verdict.severity != "info"]
    if not wrong:
        return Badge(words("verdict.well"), "good") if seen else Badge(words("verdict.unseen"), "calm")
    text = words("verdict.one") if len(wrong) == 1 else words("verdict.many", count=len(wrong))
    return Badge(text, _LEVEL[wrong[0].severity])


def _unseen(sample: MachineSample, words: Words) -> list[str]:
    """What the verdicts could not look at."""
    sentences: list[str] = []
    exporter = sample.exporter
    if not exporter.nvml_up and not sample.gpus:
        sentences.append(words("unseen.no_driver", error=clean(exporter.nvml_error)))
    silent = [gpu.gpu for gpu in sample.gpus if not gpu.lost and gpu.temperature_celsius is None]
    if silent:
        sentences.append(words("unseen.gpus", gpus=", ".join(silent)))
    if exporter.unreadable_runs:
        sentences.append(words("unseen.runs", count=f"{exporter.unreadable_runs:.0f}"))
    return sentences
