"""The page of `stoker plan speed`: step time, when the streams are busy, and how it scales. It opens offline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import Verdict
from stoker.plan.scaling import Scaling, Size
from stoker.plan.simulate import Span
from stoker.plan.speed import Range, SpeedPlan, StepTimeline
from stoker.plan.timeline import merged
from stoker.plan.trace.log import Facts
from stoker.report.bars import rough, with_range
from stoker.report.charts import PALETTE, Across, Line, Part, line_chart
from stoker.report.curve import Point
from stoker.report.figures import duration, percent, plural
from stoker.report.headline import Tile
from stoker.report.html import render_page
from stoker.report.panels import Panel, panel_of, split_of
from stoker.report.sections import Section, Table
from stoker.report.spans import Drawn, span_chart, span_legend

KINDS = ("forward", "reduce, scatter, others", "optimizer", "gather", "setup", "backward", "input", "other")
"""What a colour means in a time line of streams: the phase of what computes, and what a collective does."""
PARTS = {"computing": 0, "communication": 1, "pipeline bubble": 4, "host": 3}
"""Colour of each part of a step."""


@dataclass(frozen=True)
class SpeedCharts:
    """What the page draws beside the plan.

    Attributes:
        step: The streams of one GPU.
        pipeline: The slots of all stages; None without a pipeline.
        scaling: Other numbers of GPUs.
    """

    step: StepTimeline
    pipeline: StepTimeline | None
    scaling: Scaling


def speed_page(plan: SpeedPlan, verdict: Verdict, charts: SpeedCharts, gpu: Gpu, layout: Layout, facts: Facts) -> str:
    """Step time and throughput, when the streams are busy, and how throughput grows with the number of GPUs.

    Args:
        plan: The plan.
        verdict: Whether the step fits.
        charts: What is drawn.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        facts: Of the workload.
    """
    sections = [_parts(plan), _figures(plan), _step_section(charts.step, layout, facts)]
    if charts.pipeline is not None:
        sections.append(_pipeline_section(charts.pipeline, layout))
    sections += _scaling_sections(charts.scaling)
    return render_page(
        "plan.html.j2",
        title=Path(facts.name).name,
        what=f"{layout.ranks} x {gpu.name}, layout {layout}, {facts.precision}, {_batch(facts, layout)}",
        tiles=_tiles(plan, verdict, layout),
        sections=sections,
        notes=[*facts.notes, *(f"left out: {one}" for one in charts.scaling.left_out)],
        assumptions=list(dict.fromkeys((*plan.assumptions, *charts.scaling.assumptions))),
    )


def _batch(facts: Facts, layout: Layout) -> str:
    samples = facts.micro_batch * facts.accumulation * layout.data_ranks
    return f"{plural(samples, 'sample')} in a step, {facts.micro_batch} in a forward pass of a GPU"


def _between(value: Range) -> str:
    return f"{rough(value.low)} to {rough(value.high)}"


def _tiles(plan: SpeedPlan, verdict: Verdict, layout: Layout) -> list[Tile]:
    step, rate = plan.step_seconds, plan.samples_per_second
    tiles = [
        Tile("Step", duration(step.expected), f"{duration(step.low)} to {duration(step.high)}"),
        Tile("Samples/s", rough(rate.expected), _between(rate)),
    ]
    if plan.tokens_per_second_per_gpu is not None:
        tokens = plan.tokens_per_second_per_gpu
        tiles.append(Tile("Tokens/s per GPU", rough(tokens.expected), _between(tokens)))
    tiles.append(Tile("Bound by", plan.bound, f"{percent(plan.utilisation)} of the dense peak"))
    return [*tiles, Tile("Memory", verdict, f"of each of {plural(layout.ranks, 'GPU')}")]


def _parts(plan: SpeedPlan) -> Section:
    whole = plan.step_seconds.expected
    parts = [(Part(name, share, PARTS.get(name, 7)), duration(share * whole)) for name, share in plan.parts.items()]
    return Section("What a step is made of", split=split_of("Parts of a step", parts, key="step-parts", whole=1.0))


def _figures(plan: SpeedPlan) -> Section:
    step, lost = plan.step_seconds, plan.goodput
    rows = [("step", duration(step.expected), duration(step.low), duration(step.high))]
    rates = [("samples/s", plan.samples_per_second), ("tokens/s per GPU", plan.tokens_per_second_per_gpu)]
    rows += [(name, rough(one.expected), rough(one.low), rough(one.high)) for name, one in rates if one is not None]
    slow, fast = step.expected / step.high, step.expected / step.low
    flops, used = plan.tflops_per_gpu, plan.utilisation
    rows.append(("TFLOP/s per GPU", rough(flops), rough(flops * slow), rough(flops * fast)))
    rows.append(("of the dense peak", percent(used), percent(used * slow), percent(used * fast)))
    rows.append(("left by failures and checkpoints", percent(lost.share), "", ""))
    note = f"A checkpoint of {lost.checkpoint_gib:.1f} GiB every {duration(lost.interval_seconds)} loses least."
    return Section("What is expected", table=Table(("figure", "expected", "low", "high"), rows), note=note)


def _step_section(timeline: StepTimeline, layout: Layout, facts: Facts) -> Section:
    rows = timeline.rows()
    drawn = _drawn(timeline, rows)
    stage = f" of stage {timeline.stage}" if layout.pipeline > 1 else ""
    said = [
        f"One GPU{stage}, as expected: {duration(timeline.seconds)} without the other ranks that it waits for.",
        "Neighbours that are alike are drawn as one, paler where the stream pauses between them.",
    ]
    if len({span.row for span in timeline.spans if span.group}) > 1:
        said.append("The groups of ranks share one wire and take turns.")
    if facts.traced_micro_batches < facts.accumulation:
        said.append(f"The first {facts.traced_micro_batches} of {facts.accumulation} micro-batches are shown.")
    return Section(
        "Computing and communication over time",
        picture=span_chart("Streams of one GPU in a step", rows, drawn, key="streams"),
        legend=span_legend(KINDS, drawn),
        note=" ".join(said),
    )


def _drawn(timeline: StepTimeline, rows: Sequence[str]) -> list[Drawn]:
    return [
        Drawn(rows.index(span.row), span.start, span.end, _named(span), KINDS.index(_kind(span)), span.busy)
        for span in merged(timeline.spans)
    ]


def _kind(span: Span) -> str:
    if span.group is None:
        return span.phase if span.phase in KINDS else "other"
    return "gather" if span.name == "all_gather" else KINDS[1]


def _named(span: Span) -> str:
    return f"{span.phase} {span.name}".strip()


def _pipeline_section(timeline: StepTimeline, layout: Layout) -> Section:
    rows = [f"stage {stage}" for stage in range(layout.pipeline)]
    drawn = _drawn(timeline, rows)
    return Section(
        "The pipeline",
        picture=span_chart("Micro-batches on the stages", rows, drawn, key="pipeline", beside=True),
        legend=span_legend(KINDS, drawn),
        note=f"Schedule {layout.schedule}; what is empty is the bubble.",
    )


def _scaling_sections(scaling: Scaling) -> list[Section]:
    if len(scaling.sizes) < 2:
        return []
    heads = ("GPUs", "layout", "memory", "step", "samples/s", "efficiency", "from")
    table = Table(heads, [_row(size) for size in scaling.sizes])
    one_by_one = Section("The sizes one by one", table=table, note=_origin(scaling.sizes))
    fitting = [size for size in scaling.sizes if size.verdict != "does not fit"]
    if len(fitting) < 2:
        return [one_by_one]
    said = [
        "Each GPU keeps its micro-batch and accumulation: the batch of a step grows with the GPUs.",
        "Shaded from the low to the high end of the range.",
        f"Efficiency is samples/s per GPU over those of {plural(scaling.base, 'GPU')}.",
    ]
    if any(size.efficiency.expected > 1 for size in fitting):
        said.append("It is above 100 % where each GPU has less of the optimizer's work, the more GPUs share it.")
    if len(fitting) < len(scaling.sizes):
        said.append("Sizes that the step does not fit on are left out.")
    return [Section("Over the number of GPUs", panels=_curves(fitting), note=" ".join(said)), one_by_one]


def _curves(sizes: Sequence[Size]) -> list[Panel]:
    gpus = [size.gpus for size in sizes]
    over = Across("", "{} GPUs", gpus, log=True)  # the heading says what its numbers are
    least = sizes[0].samples_per_second.expected / gpus[0]
    even = [Point(count, _three(least * count)) for count in gpus]
    straight = Line(f"as on {plural(gpus[0], 'GPU')}", even, colour=2 * len(PALETTE) - 1)
    rates = [_line(sizes, [size.samples_per_second for size in sizes], 1.0), straight]
    shares = [_line(sizes, [size.efficiency for size in sizes], 100.0)]
    titles = "Samples/s", "Efficiency in percent"
    return [
        panel_of(titles[0], rates, line_chart(titles[0], rates, key="rates", log=True, over=over)),
        panel_of(titles[1], shares, line_chart(titles[1], shares, key="shares", from_zero=True, log=False, over=over)),
    ]


def _line(sizes: Sequence[Size], values: Sequence[Range], scale: float) -> Line:
    def points(ends: Sequence[float]) -> list[Point]:
        return [Point(size.gpus, _three(end * scale)) for size, end in zip(sizes, ends, strict=True)]

    return Line(
        "expected",
        points([one.expected for one in values]),
        dots=True,
        low=points([one.low for one in values]),
        high=points([one.high for one in values]),
    )


def _three(value: float) -> float:
    """Three digits: what is given as a range has no more."""
    return float(f"{value:.3g}")


def _row(size: Size) -> tuple[str, ...]:
    step, rate, share = size.step_seconds, size.samples_per_second, size.efficiency
    return (
        f"{size.gpus:,}",
        size.layout,
        size.verdict,
        *(
            with_range(write(one.expected), write(one.low), write(one.high))
            for one, write in ((step, duration), (rate, rough), (share, percent))
        ),
        "its own trace" if size.traced else "formula",
    )


def _origin(sizes: Sequence[Size]) -> str:
    if all(size.traced for size in sizes):
        return "Each size was traced: shards, and what is gathered of them, change with the number of GPUs."
    return (
        "By formula: the trace of two copies of the model, in which only the collectives change with the number of "
        "GPUs; their volume and latency follow from it."
    )
