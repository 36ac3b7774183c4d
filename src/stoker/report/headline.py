"""The few figures that a reader wants first, for the head of a page and of the terminal. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.report.figures import UNKNOWN, duration, number, plural
from stoker.report.summary import MetricFigures, RunState, RunSummary, epoch_text

STATE_MEANING: dict[RunState, str] = {
    "finished": "The run reached its end.",
    "stopped": "The run was told to stop and saved; it can be resumed.",
    "failed": "The run broke.",
    "unfinished": "No end was recorded: the run is still going on, or it was killed.",
}


@dataclass(frozen=True)
class Tile:
    """A figure with its name and what belongs to it."""

    label: str
    value: str
    detail: str = ""


def tiles(summary: RunSummary) -> list[Tile]:
    """Main metric, loss, throughput, time and steps; what was not recorded shows as unknown."""
    shown = [_metric_tile(summary.main)] if summary.main else []
    losses = [metric for metric in summary.metrics if metric.name == "loss"]
    shown += [_metric_tile(metric) for metric in losses[:1] if metric is not summary.main]
    return [*shown, _rate_tile(summary), _time_tile(summary), _steps_tile(summary)]


def _metric_tile(metric: MetricFigures) -> Tile:
    name = metric.name[:1].upper() + metric.name[1:].replace("_", " ")
    best = f"best {number(metric.best.value)} at step {metric.best.step:,.0f}" if metric.best else "never finite"
    return Tile(f"{name} ({metric.split})", number(metric.last.value), best)


def _rate_tile(summary: RunSummary) -> Tile:
    if summary.steady_rate is None:
        return Tile("Throughput", UNKNOWN)
    details = [f"mean {number(summary.mean_rate, 3)}"]
    if summary.world_size and summary.world_size > 1:
        ranks = f"{number(summary.steady_rate / summary.world_size, 3)} on each of {summary.world_size} ranks"
        details.append(ranks)
    return Tile("Throughput", f"{number(summary.steady_rate, 3)} samples/s", ", ".join(details))


def _time_tile(summary: RunSummary) -> Tile:
    restarts = plural(summary.restarts, "restart") if summary.restarts else "no restart"
    return Tile("Wall time", duration(summary.wall_seconds), restarts)


def _steps_tile(summary: RunSummary) -> Tile:
    details = [f"epoch {epoch_text(summary.epoch)}"] if summary.epoch is not None else []
    details += [plural(round(summary.samples), "sample")] if summary.samples else []
    return Tile("Steps", f"{summary.steps:,}", ", ".join(details))
