"""One page that opens offline: the report of a run, or the comparison of several.

The page asks for nothing from outside: style and script are in it, charts are SVG, fonts the reader's own.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2

from stoker._version import __version__
from stoker.report.advice import time_sentence
from stoker.report.charts import colour
from stoker.report.compare import differing_settings, figure_rows, run_labels, settings_by_section
from stoker.report.figures import counted, data_size, duration, flatten, moment, number, value_text
from stoker.report.headline import STATE_MEANING, tiles
from stoker.report.panels import comparison_panels, run_panels, time_split
from stoker.report.predicted import comparisons
from stoker.report.rows import as_amount, as_list, as_mapping
from stoker.report.runfolder import Event, RunRecord, read_run, read_runs
from stoker.report.summary import summarize
from stoker.report.write import write_aside

REPORT_NAME = "report.html"
COMPARISON_NAME = "comparison.html"
MAX_EVENTS = 200
"""Rows in the table of events; of more, the first and the last hundred are shown."""


@dataclass(frozen=True)
class EventRow:
    """A line of the table of events, written out."""

    time: str
    since: str
    event: str
    step: str
    took: str
    message: str


def write_report(run: Path, out: Path | None = None) -> Path:
    """Write the report of one run and return where it is: `report.html` in the run folder, or `out`.

    Raises:
        UserError: `run` is no run folder, or the page cannot be written.
    """
    return write_aside(out or run / REPORT_NAME, render_report(read_run(run)))


def write_comparison(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write the comparison of several runs and return where it is: `comparison.html` here, or `out`.

    Raises:
        UserError: One of `runs` is no run folder, or the page cannot be written.
    """
    return write_aside(out or Path(COMPARISON_NAME), render_comparison(read_runs(runs)))


def render_report(record: RunRecord) -> str:
    """The page of one run."""
    summary = summarize(record)
    packages = as_mapping(record.environment.get("packages"))
    rest = {key: value for key, value in record.environment.items() if key != "packages"}
    return (
        _templates()
        .get_template("run.html.j2")
        .render(
            version=__version__,
            title=summary.name,
            summary=summary,
            meaning=STATE_MEANING[summary.state],
            tiles=tiles(summary),
            failure=record.failure,
            failed_at=moment(record.failure.time) if record.failure else "",
            panels=run_panels(record),
            split=time_split(summary.phases, key="split"),
            sentence=time_sentence(summary.phases, record.spec, record.environment),
            settings=settings_by_section(record.spec),
            environment=environment_rows(rest),
            packages=flatten(packages),
            events=event_rows(record.events),
            left_out=max(0, len(record.events) - MAX_EVENTS),
            predicted=comparisons(record),
            record=record,
        )
    )


def render_comparison(records: Sequence[RunRecord]) -> str:
    """The page of several runs."""
    summaries = [summarize(record) for record in records]
    labels = run_labels(records)
    splits = [time_split(summary.phases, key=f"split{index}") for index, summary in enumerate(summaries)]
    sentences = [
        time_sentence(summary.phases, record.spec, record.environment)
        for summary, record in zip(summaries, records, strict=True)
    ]
    return (
        _templates()
        .get_template("comparison.html.j2")
        .render(
            version=__version__,
            title=f"{len(records)} runs compared",
            labels=labels,
            colours=[colour(index) for index in range(len(records))],
            summaries=summaries,
            records=records,
            rows=figure_rows(summaries),
            differing=differing_settings(records),
            panels=comparison_panels(records, labels),
            splits=list(zip(labels, splits, sentences, strict=True)),
        )
    )


def render_page(template: str, **values: object) -> str:
    """A page from a template of this package, for the verbs that show something else than runs."""
    return _templates().get_template(template).render(version=__version__, **values)


def environment_rows(environment: Mapping[str, object]) -> dict[str, str]:
    """The environment as dotted keys; sizes in binary units, the command as typed."""
    rows = flatten(environment)
    for key, value in environment.items():
        size = as_amount(value)
        if key.endswith("_bytes") and size is not None:
            rows[key] = data_size(size)
        elif key == "command" and as_list(value):
            rows[key] = shlex.join(value_text(word) for word in as_list(value))
        elif key == "devices" and as_list(value):
            rows[key] = counted(value_text(device) for device in as_list(value))
    return {key.removesuffix("_bytes"): text for key, text in rows.items()}


def event_rows(events: Sequence[Event]) -> list[EventRow]:
    """The table of events, times counted from the first one."""
    shown = events if len(events) <= MAX_EVENTS else (*events[: MAX_EVENTS // 2], *events[-MAX_EVENTS // 2 :])
    begin = next((event.time for event in events if event.time is not None), None)
    return [
        EventRow(
            time=moment(event.time),
            since="" if event.time is None or begin is None else duration(max(0.0, event.time - begin)),
            event=event.event,
            step="" if event.step is None else f"{event.step:,}",
            took="" if event.seconds is None else duration(event.seconds),
            message=event.message,
        )
        for event in shown
    ]


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("stoker.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["number"] = number
    return environment
