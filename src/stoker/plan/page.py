"""The pages of `stoker plan memory` and `stoker plan speed`: tables, time lines and curves that open offline."""

from __future__ import annotations

from collections.abc import Sequence

from stoker.plan.allocator import Options
from stoker.plan.hardware import GIB, Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import MemoryPlan
from stoker.plan.scaling import Size
from stoker.plan.simulate import Span
from stoker.plan.speed import Conditions, Range, SpeedPlan, StepTimeline, pipeline_timeline, step_timeline
from stoker.plan.text import gib
from stoker.plan.timeline import STACKED, MemoryTimeline, memory_timeline, merged
from stoker.plan.trace.log import Trace
from stoker.plan.trace.run import stages_to_trace
from stoker.report.areas import Layer, Level, Stretch, area_chart
from stoker.report.bars import Bar, bar_chart, rough
from stoker.report.figures import duration, percent
from stoker.report.html import render_page
from stoker.report.spans import Drawn, span_chart

Chart = tuple[str, str, str]
"""Heading, picture, and a note below it."""

NEAR = 2.0
"""The capacity is drawn where it lies below so many times of what is reserved: else it would press the rest down."""

KINDS = ("forward", "communication", "optimizer", "gather", "setup", "backward", "input", "other")
"""What a colour means in a time line of streams; the names of phases, and of what collectives do."""


def memory_page(
    plan: MemoryPlan, traces: Sequence[Trace], gpu: Gpu, layout: Layout, options: Options, what: str
) -> str:
    """The verdict, what holds the memory, and the memory over the traced steps by what holds it.

    Args:
        plan: The plan.
        traces: What it rests on; none where it is a closed-form estimate.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        options: Options of the caching allocator.
        what: What is planned, where no trace says it.
    """
    charts: list[Chart] = []
    if traces:
        traced = traces[stages_to_trace(layout).index(plan.stage)]
        charts.append(_memory_chart(plan, memory_timeline(traced, gpu, options)))
    usable = plan.usable or 0
    rows = [(name, gib(nbytes).strip(), _share(nbytes, usable)) for name, nbytes in plan.categories.items()]
    rows.append(("in all", gib(plan.device_bytes).strip(), _share(plan.device_bytes, usable)))
    held = [f"{one.module} holds {gib(one.nbytes).strip()} at the peak" for one in plan.holders]
    what = traces[0].facts.name if traces else what
    title = f"{what}: {plan.verdict}" if gpu.on_cpu else f"{what}: {plan.verdict} on {gpu.name}"
    return render_page(
        "plan.html.j2",
        title=title,
        what=f"{gib(plan.device_bytes).strip()} of {gib(usable).strip()}, layout {layout}; peak in the {plan.peak}",
        table="Memory at the peak",
        heads=("held by", "memory", "of what can be used"),
        rows=rows,
        charts=charts,
        notes=[*held, *plan.notes],
        assumptions=(),
    )


def speed_page(
    plan: SpeedPlan,
    held: MemoryPlan,
    traces: Sequence[Trace],
    gpu: Gpu,
    layout: Layout,
    given: Conditions,
    sizes: Sequence[Size],
) -> str:
    """Step time and throughput, when the streams are busy, and how throughput grows with the number of GPUs.

    Args:
        plan: The plan.
        held: Memory of the same.
        traces: What both rest on.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        given: Network, data and storage.
        sizes: Of `scaling_curve`.
    """
    charts = [_step_chart(step_timeline(traces, layout, gpu, given), layout)]
    slots = pipeline_timeline(traces, layout, gpu, given)
    if slots is not None:
        charts.append(_pipeline_chart(slots, layout))
    charts += _scaling_charts(sizes)
    return render_page(
        "plan.html.j2",
        title=f"{traces[0].facts.name}: {rough(plan.samples_per_second.expected)} samples/s",
        what=f"{layout.ranks} x {gpu.name}, layout {layout}; bound by {plan.bound}; memory: {held.verdict}",
        table="What is expected",
        heads=("figure", "expected", "low", "high"),
        rows=_figures(plan),
        charts=charts,
        notes=[f"{name}: {percent(share)} of the step" for name, share in plan.parts.items()],
        assumptions=plan.assumptions,
    )


def _share(nbytes: float, usable: int) -> str:
    return percent(nbytes / usable) if usable else ""


def _memory_chart(plan: MemoryPlan, timeline: MemoryTimeline) -> Chart:
    moments, peak = timeline.moments, timeline.peak
    layers = [
        Layer(name, [moment.held[index] / GIB for moment in moments], index) for index, name in enumerate(STACKED)
    ]
    reserved = [moment.reserved / GIB for moment in moments]
    levels = [] if reserved == [moment.total / GIB for moment in moments] else [Level("reserved", reserved)]
    outside = plan.device_bytes - plan.reserved
    room = ((plan.usable or 0) - outside) / GIB
    if 0 < room <= NEAR * max(reserved):
        levels.append(Level("room for tensors", [room], dashed=True))
    chart = area_chart(
        "Memory over the traced steps, by what holds it",
        [moment.at for moment in moments],
        layers,
        key="memory",
        unit="GiB",
        levels=levels,
        stretches=[Stretch(phase, start) for start, phase in timeline.phases if phase != "setup" or start <= 1],
        end=timeline.end,
        mark=peak.at,
    )
    note = (
        f"Two steps, one allocation or release after the other; the first step makes the state of the optimizer. "
        f"Most is in use at the peak, {gib(peak.total).strip()}. Context and libraries, {gib(outside).strip()}, "
        f"are outside of it: tensors have room for {room:.3g} GiB."
    )
    return "Memory over time", chart, note


def _step_chart(timeline: StepTimeline, layout: Layout) -> Chart:
    rows = sorted({span.row for span in timeline.spans}, key=lambda row: (row == "communication", row))
    drawn = [
        Drawn(rows.index(span.row), span.start, span.end, _named(span), KINDS.index(_kind(span)))
        for span in merged(timeline.spans)
    ]
    chart = span_chart("Streams of one GPU in a step", rows, drawn, KINDS, key="streams")
    stage = f" of stage {timeline.stage}" if layout.pipeline > 1 else ""
    note = (
        f"One GPU{stage} in one step, as expected: {duration(timeline.seconds)} without the other ranks that it waits "
        "for. Neighbours that are alike are drawn as one; gradient accumulation shows two micro-batches."
    )
    return "Computing and communication over time", chart, note


def _kind(span: Span) -> str:
    if span.row != "communication":
        return span.phase if span.phase in KINDS else "other"
    return "gather" if span.name == "all_gather" else "communication"


def _named(span: Span) -> str:
    return f"{span.phase} {span.name}".strip()


def _pipeline_chart(timeline: StepTimeline, layout: Layout) -> Chart:
    rows = [f"stage {stage}" for stage in range(layout.pipeline)]
    drawn = [
        Drawn(rows.index(span.row), span.start, span.end, _named(span), KINDS.index(span.phase))
        for span in timeline.spans
    ]
    chart = span_chart("Micro-batches on the stages of the pipeline", rows, drawn, KINDS, key="pipeline")
    return "The pipeline", chart, f"Schedule {layout.schedule}; gaps are the bubble."


def _scaling_charts(sizes: Sequence[Size]) -> list[Chart]:
    if len(sizes) < 2:
        return []
    rates = [_bar(size, size.samples_per_second) for size in sizes]
    percents = [100 * size.efficiency for size in sizes]
    shares = [_bar(size, Range(one, one, one)) for size, one in zip(sizes, percents, strict=True)]
    how = "Each size was traced." if all(size.traced for size in sizes) else (
        "The step was traced once: with whole copies of the model only the collectives change with the number of GPUs."
    )  # fmt: skip
    return [
        ("Samples/s over the number of GPUs", bar_chart("Samples/s by GPUs", rates, key="rates"), how),
        (
            "Efficiency of scaling, in percent",
            bar_chart("Efficiency by GPUs", shares, key="shares"),
            f"Samples/s per GPU over those of {sizes[0].gpus} GPUs, as expected.",
        ),
    ]


def _bar(size: Size, value: Range) -> Bar:
    return Bar(f"{size.gpus} GPUs", value.expected, value.low, value.high)


def _figures(plan: SpeedPlan) -> list[tuple[str, str, str, str]]:
    step = plan.step_seconds
    rows = [("step", duration(step.expected), duration(step.low), duration(step.high))]
    rates = [("samples/s", plan.samples_per_second), ("tokens/s per GPU", plan.tokens_per_second_per_gpu)]
    rows += [(name, rough(one.expected), rough(one.low), rough(one.high)) for name, one in rates if one is not None]
    rows.append(("TFLOP/s per GPU", rough(plan.tflops_per_gpu), "", ""))
    rows.append(("of the dense peak", percent(plan.utilisation), "", ""))
    rows.append(("goodput", percent(plan.goodput.share), "", ""))
    return rows
