"""How fast it trains: step time and throughput as a range, with what bounds it and what was assumed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from stoker.plan import pipeline
from stoker.plan.collectives import Network, seconds
from stoker.plan.goodput import Goodput, goodput
from stoker.plan.hardware import Gpu, find_link, overhead
from stoker.plan.layout import Layout
from stoker.plan.roofline import Roofline, Side
from stoker.plan.simulate import Span, Timeline, play, slowdown
from stoker.plan.trace.log import Phase, Trace
from stoker.plan.trace.run import stages_to_trace
from stoker.plan.workload import format_of


@dataclass(frozen=True)
class Range:
    """A value and how far it may be off, for the reasons in the assumptions."""

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class SpeedPlan:
    """Speed of a layout.

    Attributes:
        step_seconds: Time of one optimizer step.
        samples_per_second: Over all GPUs.
        tokens_per_second_per_gpu: None where a sample is no sequence.
        tflops_per_gpu: Arithmetic done per second, recomputation included.
        utilisation: The same as a share of the dense peak.
        parts: Shares of the step: computing, exposed communication, pipeline bubble, waiting for the host.
        bound: What bounds the step.
        by_kind: Kernel seconds by kind of operator.
        goodput: What failures and checkpoints leave.
        assumptions: What was assumed, with sources.
        seconds_at_peak: Seconds that the model's arithmetic of a step takes one GPU at its dense peak: three times
            that of the forward pass, recomputation left out (Chowdhery et al. 2022, arXiv 2204.02311, appendix B).
            Over the real step time it is the model FLOPs utilisation. None on a CPU.
    """

    step_seconds: Range
    samples_per_second: Range
    tokens_per_second_per_gpu: Range | None
    tflops_per_gpu: float
    utilisation: float
    parts: Mapping[str, float]
    bound: str
    by_kind: Mapping[str, float]
    goodput: Goodput
    assumptions: tuple[str, ...] = field(default=())
    seconds_at_peak: float | None = None

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self)


@dataclass(frozen=True)
class Conditions:
    """What a step also depends on.

    Attributes:
        network: Link between nodes, by name.
        link: Link between the GPUs of a node, by name; None for the one that the GPU has.
        gpus_per_node: GPUs of a node.
        gpus_per_port: GPUs that share a network port.
        compiled: Whether the model runs under torch.compile.
        loader_rate: Samples per second that the data loader delivers to each rank; None if it keeps up.
        storage_gbs: GB/s at which checkpoints are written.
        gpu_hours: GPU-hours from one failure to the next; None for the published figure.

    Raises:
        UserError: If there is no such link.
    """

    network: str = "ib-400"
    link: str | None = None
    gpus_per_node: int = 8
    gpus_per_port: float = 1.0
    compiled: bool = False
    loader_rate: float | None = None
    storage_gbs: float = 2.0
    gpu_hours: float | None = None

    def __post_init__(self) -> None:
        find_link(self.network, "network")
        if self.link is not None:
            find_link(self.link, "node")

    def network_of(self, gpu: Gpu) -> Network:
        """The links between ranks on such GPUs."""
        return Network(
            find_link(self.link or gpu.fabric), find_link(self.network), self.gpus_per_node, self.gpus_per_port
        )


@dataclass(frozen=True)
class _Step:
    seconds: float
    parts: dict[str, float]
    timeline: Timeline


def plan_speed(traces: Sequence[Trace], layout: Layout, gpu: Gpu, conditions: Conditions | None = None) -> SpeedPlan:
    """Plan the speed of traced stages.

    Args:
        traces: Of the stages of `stages_to_trace`.
        layout: How ranks are arranged.
        gpu: The GPU.
        conditions: Network, compilation, data and storage.
    """
    given = conditions or Conditions()
    sides: dict[Side, _Step] = {side: _step(traces, layout, gpu, given, side) for side in ("value", "low", "high")}
    main, facts = sides["value"], traces[0].facts
    samples = facts.micro_batch * facts.accumulation * layout.data_ranks
    bound = max(main.parts, key=lambda name: main.parts[name])
    taken = {side: step.seconds for side, step in sides.items()}
    if given.loader_rate is not None:
        floor = facts.micro_batch * facts.accumulation / given.loader_rate
        bound = "data loading" if floor > main.seconds else bound
        taken = {side: max(value, floor) for side, value in taken.items()}
    times = Range(taken["value"], taken["high"], taken["low"])
    rates = Range(*(samples / t for t in (times.expected, times.high, times.low)))
    tokens = facts.tokens_per_sample
    per_gpu = None
    if tokens is not None:
        per_gpu = Range(*(rate * tokens / layout.ranks for rate in (rates.expected, rates.low, rates.high)))
    done = _flops(traces, layout) / times.expected
    return SpeedPlan(
        step_seconds=times,
        samples_per_second=rates,
        tokens_per_second_per_gpu=per_gpu,
        tflops_per_gpu=done / 1e12,
        utilisation=done / _peak(gpu, facts.precision),
        parts=main.parts,
        bound=bound,
        by_kind=main.timeline.by_kind,
        goodput=goodput(
            traces[0].parameters,
            traces[0].states(),
            layout.ranks,
            storage_gbs=given.storage_gbs,
            gpu_hours=given.gpu_hours,
        ),
        assumptions=_assumptions(gpu, layout, given, facts.precision),
        seconds_at_peak=None if gpu.on_cpu else 3 * _flops(traces, layout, "forward") / _peak(gpu, facts.precision),
    )


def expected_seconds(
    traces: Sequence[Trace],
    layout: Layout,
    roofline: Roofline,
    conditions: Conditions,
    accumulations: Sequence[int],
) -> list[float]:
    """Step time that is expected with each number of micro-batches, without its range: to compare many layouts."""
    network = conditions.network_of(roofline.gpu)
    timelines = [play(one, roofline, network) for one in traces]
    return [
        _whole([one.with_accumulation(count) for one in traces], timelines, layout, network, conditions).seconds
        for count in accumulations
    ]


@dataclass(frozen=True)
class StepTimeline:
    """The streams of one GPU in a step of which nothing is known but what was expected.

    Attributes:
        spans: What occupies them, in seconds from the beginning of the step.
        seconds: Time of the step as it was played: without the other ranks that it waits for.
        stage: Stage of the pipeline.
    """

    spans: tuple[Span, ...]
    seconds: float
    stage: int = 0

    def rows(self) -> list[str]:
        """What is occupied, by name: computing first, then the other streams, then the groups that communicate."""
        kinds = {span.row: (span.group is not None, span.row != "compute", span.row) for span in self.spans}
        return sorted(kinds, key=lambda row: kinds[row])

    def to_json(self) -> dict[str, Any]:
        """How long each row is busy: for programs that do not draw."""
        busy = dict.fromkeys(self.rows(), 0.0)
        for span in self.spans:
            busy[span.row] += span.busy
        return {"stage": self.stage, "seconds": self.seconds, "busy_seconds": busy}


def step_timeline(
    traces: Sequence[Trace], layout: Layout, gpu: Gpu, conditions: Conditions | None = None
) -> StepTimeline:
    """Play the stage that computes longest once more and write down when its streams are busy.

    Collectives have a row for each group of ranks, though all take turns on one wire. Of an accumulating step it
    shows the micro-batches that were traced.
    """
    given = conditions or Conditions()
    roofline = Roofline(gpu, tf32=traces[0].facts.precision == "tf32")
    found: list[StepTimeline] = []
    for stage, one in zip(stages_to_trace(layout), traces, strict=True):
        spans: list[Span] = []
        timeline = play(one, roofline, given.network_of(gpu), watch=spans.append)
        begin = timeline.ends.get((one.steps - 2, "step"), 0.0)
        moved = tuple(_placed(span, begin, layout) for span in spans if span.end > span.start)
        found.append(StepTimeline(moved, timeline.step_seconds(one.steps - 1), stage))
    return max(found, key=lambda one: one.seconds)


def _placed(span: Span, begin: float, layout: Layout) -> Span:
    """A span from the beginning of its step, on the row of its group."""
    row = span.row if span.group is None else layout.group_name(*span.group)
    return span._replace(row=row, start=span.start - begin, end=span.end - begin)


def pipeline_timeline(
    traces: Sequence[Trace], layout: Layout, gpu: Gpu, conditions: Conditions | None = None
) -> StepTimeline | None:
    """When each stage of a pipeline runs which micro-batch; None without a pipeline."""
    if layout.pipeline == 1:
        return None
    given = conditions or Conditions()
    roofline = Roofline(gpu, tf32=traces[0].facts.precision == "tf32")
    network = given.network_of(gpu)
    spans: list[Span] = []

    def watch(stage: int, slot: pipeline.Slot, start: float, end: float) -> None:
        phase = "forward" if slot.direction == "F" else "backward"
        spans.append(Span(f"stage {stage}", start, end, phase, f"micro-batch {slot.micro_batch}"))

    step = _pipeline_step(traces, [play(one, roofline, network) for one in traces], layout, network, watch)
    return StepTimeline(tuple(spans), step.seconds)


def _step(traces: Sequence[Trace], layout: Layout, gpu: Gpu, given: Conditions, side: Side) -> _Step:
    roofline = Roofline(gpu, tf32=traces[0].facts.precision == "tf32", side=side)
    network = given.network_of(gpu)
    return _whole(traces, [play(one, roofline, network) for one in traces], layout, network, given)


def _whole(
    traces: Sequence[Trace], timelines: Sequence[Timeline], layout: Layout, network: Network, given: Conditions
) -> _Step:
    """The step of all stages and micro-batches, from the played part of it."""
    if layout.pipeline > 1:
        step = _pipeline_step(traces, timelines, layout, network)
    else:
        step = _plain_step(traces[0], timelines[0])
    factor = slowdown(step.timeline, step.seconds, layout.ranks)
    if given.compiled:
        factor /= overhead("compile_speed")
    return _Step(step.seconds * factor, step.parts, step.timeline)


def _plain_step(trace: Trace, timeline: Timeline) -> _Step:
    last = trace.steps - 1
    step = timeline.step_seconds(last)
    more = trace.facts.accumulation - trace.facts.traced_micro_batches
    first = timeline.ends[last, "micro-batch 0"] - timeline.ends.get((last - 1, "step"), 0.0)
    busy = min(timeline.compute, step)
    waiting_for_host = max(0.0, min(timeline.host - busy, step - busy))
    exposed = max(0.0, step - busy - waiting_for_host)
    total = step + more * first
    parts = {"computing": busy, "communication": exposed, "host": waiting_for_host}
    return _Step(total, {name: value / step for name, value in parts.items()}, timeline)


def _pipeline_step(
    traces: Sequence[Trace],
    timelines: Sequence[Timeline],
    layout: Layout,
    network: Network,
    watch: pipeline.Watch | None = None,
) -> _Step:
    facts, stages, chunks = traces[0].facts, layout.pipeline, layout.interleave
    measured = {
        stage: _slot_seconds(trace, timeline)
        for stage, trace, timeline in zip(stages_to_trace(layout), traces, timelines, strict=True)
    }
    typical = min(1, stages - 1)
    of_stage = [measured.get(stage, measured[typical]) for stage in range(stages)]
    orders = [pipeline.order(layout.schedule, stage, stages, facts.accumulation, chunks) for stage in range(stages)]
    stride = layout.ranks // stages
    transfer = seconds("send", facts.hidden_bytes, 2, stride, network)

    def duration(stage: int, slot: pipeline.Slot) -> float:
        return of_stage[stage][0 if slot.direction == "F" else 1]

    span, busy = pipeline.makespan(orders, duration, transfer, chunks, watch)
    tail = max(one[2] for one in of_stage)
    total = span + tail
    worked = statistics.mean(busy)
    timeline = max(timelines, key=lambda one: one.compute)
    parts = {
        "computing": worked / total,
        "pipeline bubble": (span - worked) / total,
        "communication": tail / total,
    }
    return _Step(total, parts, timeline)


def _slot_seconds(trace: Trace, timeline: Timeline) -> tuple[float, float, float]:
    """Seconds of a forward slot, of a backward slot, and of what follows the last one."""
    last = trace.steps - 1
    named = [(name, timeline.ends[step, name]) for step, name, _ in trace.ends if step == last]
    before = timeline.ends.get((last - 1, "step"), 0.0)
    spans: dict[str, list[float]] = {"F": [], "B": [], "s": []}
    for name, end in named:
        spans[name[0]].append(end - before)
        before = end
    # the first forward slot also gathers weights, the last backward slot also reduces gradients
    forward = statistics.median(spans["F"][1:] or spans["F"])
    backward = statistics.median(spans["B"][:-1] or spans["B"])
    return forward, backward, spans["s"][0] + max(0.0, spans["B"][-1] - backward)


def _flops(traces: Sequence[Trace], layout: Layout, phase: Phase | None = None) -> float:
    """Arithmetic of one step, or of one phase of it, on an average GPU, from what was traced of it."""
    facts = traces[0].facts
    per_stage = [
        sum(op.cost.flops for op in one.ops() if phase in (None, op.phase)) / one.facts.traced_micro_batches
        for one in traces
    ]
    if layout.pipeline == 1:
        return per_stage[0] * facts.accumulation
    middle = per_stage[min(1, len(per_stage) - 1)]
    whole = sum(per_stage) + middle * (layout.pipeline - len(per_stage))
    return whole / layout.pipeline * facts.accumulation


def _peak(gpu: Gpu, precision: str) -> float:
    return gpu.flops.get(format_of(precision), gpu.flops["float32"])


def _assumptions(gpu: Gpu, layout: Layout, given: Conditions, precision: str) -> tuple[str, ...]:
    quantities = ["gemm", "memory", "launch_us", "kernel_us"]
    extra = {"fp32": "gemm_fp32", "tf32": "gemm_tf32", "fp8": "gemm_fp8"}
    if precision in extra:
        quantities.insert(0, extra[precision])
    said = [
        f"{name}: {f.value:g} (from {f.low:g} to {f.high:g}): {f.source}"
        for name, f in ((quantity, gpu.reached(quantity)) for quantity in quantities)
    ]
    network = given.network_of(gpu)
    used = [network.node] * (layout.ranks > 1) + [network.between] * (layout.ranks > given.gpus_per_node)
    said += [f"{link.name}: {link.bandwidth / 1e9:g} GB/s per GPU: {link.source}" for link in used]
    if given.compiled:
        said.append(f"torch.compile cannot be traced: {overhead('compile_speed'):g} times eager was assumed")
    if given.loader_rate is None:
        said.append("the data loader keeps up: give --loader-rate to check it")
    return tuple(said)
