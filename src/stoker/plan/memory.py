"""Will it fit: memory of one GPU over two training steps, by what holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from stoker.plan import closed_form
from stoker.plan.allocator import MIB, Options, OutOfMemoryError, Usage, add_up, replay
from stoker.plan.hardware import GIB, Gpu, overhead
from stoker.plan.layout import Layout
from stoker.plan.trace.log import Memory, Tensor, Trace
from stoker.plan.trace.run import Failure, Reply, Source, stages_to_trace, trace
from stoker.plan.workload import Workload

Verdict = Literal["fits", "tight", "does not fit"]

CATEGORIES = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "temporaries",
    "collectives",
    "fragmentation",
    "context",
)


@dataclass(frozen=True)
class Holder:
    """A module and the bytes it holds at the peak."""

    module: str
    nbytes: int


@dataclass(frozen=True)
class MemoryPlan:
    """Memory of the GPU that needs most.

    Attributes:
        verdict: Whether it fits; `tight` within the last tenth of what is usable.
        categories: Bytes at the peak by what holds them; they sum to `device_bytes`.
        allocated: Most bytes in use by tensors.
        reserved: Most bytes reserved by the caching allocator (`torch.cuda.max_memory_reserved`).
        device_bytes: What nvidia-smi would show: reserved, context and libraries.
        usable: Bytes of the GPU that can be used; None without a GPU.
        peak: Phase and step of the peak.
        holders: The modules that hold most activations at the peak.
        stage: Stage of the pipeline that needs most.
        retries: Times that cached memory would have to be given back to fit.
        exact: Whether it was traced; otherwise it is a closed-form estimate.
        notes: What was assumed.
    """

    verdict: Verdict
    categories: Mapping[str, float]
    allocated: float
    reserved: float
    device_bytes: float
    usable: int | None
    peak: str
    holders: tuple[Holder, ...]
    stage: int = 0
    retries: int = 0
    exact: bool = True
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary for `json.dumps`."""
        return asdict(self)


def plan_memory(
    source: Source,
    layout: Layout,
    gpu: Gpu,
    *,
    options: Options | None = None,
    compiled: bool = False,
    cache: Path | None = None,
) -> tuple[MemoryPlan, Reply]:
    """Plan the memory of a workload; returns the plan and the traces it rests on.

    Args:
        source: How to make the workload.
        layout: How ranks are arranged.
        gpu: The GPU.
        options: Options of the caching allocator.
        compiled: Whether the model will run under torch.compile, which no trace can see.
        cache: Folder in which traces are kept.

    Raises:
        UserError: If the workload cannot be made because of what the user wrote.
        RunError: If the model cannot even be built.
    """
    reply = trace(source, layout, None if gpu.on_cpu else gpu, cache=cache)
    if reply.failure is not None:
        return _estimate(source, source.make(), layout, gpu, reply.failure), reply
    plans = [judge(one, gpu, layout, options=options, compiled=compiled) for one in reply.traces]
    worst = max(range(len(plans)), key=lambda number: plans[number].device_bytes)
    return replace(plans[worst], stage=stages_to_trace(layout)[worst]), reply


def judge(
    traced: Trace,
    gpu: Gpu,
    layout: Layout,
    *,
    options: Options | None = None,
    compiled: bool = False,
) -> MemoryPlan:
    """Replay one trace and compare it with a GPU, or with the memory of a CPU."""
    if gpu.on_cpu:
        return _judge_cpu(traced, gpu)
    requests = with_workspaces(traced.memory, gpu)
    usage = replay(requests, options=options)
    factor = overhead("compile_memory") if compiled else 1.0
    outside = overhead("context_gib") * GIB
    libraries = overhead("nccl_gib") * GIB if layout.ranks > 1 else 0.0
    reserved = usage.peak_reserved * factor
    total = reserved + outside + libraries
    categories = by_category(traced, usage, requests)
    if compiled:
        categories["activations"] -= (1 - factor) * usage.peak_reserved
    categories["collectives"] += libraries
    categories["context"] = outside
    retries, fits_capped = _capped(requests, usage.peak_reserved, gpu, int(outside + libraries), options)
    verdict = verdict_of(total, gpu.memory_bytes, fits_capped=fits_capped)
    said = [*traced.facts.notes, *traced.notes]
    if compiled:
        said.append(f"torch.compile cannot be traced: {1 - factor:.1%} less than eager was assumed")
    return MemoryPlan(
        verdict=verdict,
        categories=categories,
        allocated=usage.peak_allocated * factor,
        reserved=reserved,
        device_bytes=total,
        usable=gpu.memory_bytes,
        peak=_peak_name(traced, usage.peak_position - 1),  # the workspace stands before
        holders=tuple(holders(traced, usage, requests)),
        retries=retries,
        notes=tuple(said),
    )


def verdict_of(needed: float, usable: int, *, fits_capped: bool = True) -> Verdict:
    """Three answers: `tight` where what is not modelled decides, or cached memory must be given back."""
    if needed <= overhead("fits_below") * usable:
        return "fits"
    return "tight" if needed <= usable or fits_capped else "does not fit"


def with_workspaces(memory: Sequence[Memory], gpu: Gpu) -> list[tuple[int, int, int]]:
    """Put the workspace of cuBLAS first: the first matrix product allocates it and keeps it."""
    name = "cublas_workspace_hopper_mib" if gpu.capability >= (9, 0) else "cublas_workspace_mib"
    return [(-1, int(overhead(name) * MIB), 0), *memory]


def _capped(
    requests: Sequence[tuple[int, int, int]], needed: int, gpu: Gpu, outside: int, options: Options | None
) -> tuple[int, bool]:
    """Whether it fits once cached memory is given back when the GPU is full, and how often it is."""
    capacity = gpu.memory_bytes - outside
    if needed <= capacity:
        return 0, True
    try:
        usage = replay(requests, capacity=capacity, options=options)
    except OutOfMemoryError:
        return 0, False
    return usage.released_and_retried, True


def category_of(tensor: Tensor) -> str:
    """What a tensor counts as."""
    role = tensor.role
    if role == "gathered" or (tensor.stream != 0 and role not in ("parameter", "gradient", "optimizer")):
        return "collectives"
    if role in ("parameter", "buffer"):
        return "parameters"
    if role in ("gradient", "optimizer"):
        return "gradients" if role == "gradient" else "optimizer"
    if tensor.phase in ("forward", "input") and (tensor.freed is None or tensor.freed[0] != "forward"):
        return "activations"
    return "temporaries"


def at_peak(traced: Trace, usage: Usage, requests: Sequence[tuple[int, int, int]]) -> Iterable[Tensor]:
    """Tensors in use at the moment when most is."""
    live: dict[int, None] = {}
    for key, nbytes, _ in requests[: usage.peak_position + 1]:
        if nbytes:
            live[key] = None
        else:
            del live[key]
    return (traced.tensors[key] for key in live if key > 0)


def by_category(traced: Trace, usage: Usage, requests: Sequence[tuple[int, int, int]]) -> dict[str, float]:
    """Bytes at the peak of what is in use, and what is reserved beyond it."""
    sums: dict[str, float] = dict.fromkeys(CATEGORIES, 0.0)
    for tensor in at_peak(traced, usage, requests):
        sums[category_of(tensor)] += tensor.nbytes
    workspace = usage.peak_requested - sum(sums.values())
    sums["temporaries"] += workspace
    sums["fragmentation"] = float(usage.peak_reserved - usage.peak_requested)
    return sums


def holders(traced: Trace, usage: Usage, requests: Sequence[tuple[int, int, int]], most: int = 8) -> list[Holder]:
    """Modules whose forward pass allocated most of what is in use at the peak."""
    counted: Counter[str] = Counter()
    for tensor in at_peak(traced, usage, requests):
        if category_of(tensor) in ("activations", "temporaries"):
            counted[traced.modules[tensor.module] or f"({tensor.phase})"] += tensor.nbytes
    return [Holder(name, nbytes) for name, nbytes in counted.most_common(most)]


def _judge_cpu(traced: Trace, cpu: Gpu) -> MemoryPlan:
    """Memory of one process: its tensors, and what Python, torch, the task and its data held before."""
    usage = add_up(traced.memory)
    categories = by_category(traced, usage, traced.memory)
    categories["context"] = float(traced.resident)
    total = float(usage.peak_allocated + traced.resident)
    return MemoryPlan(
        verdict=verdict_of(total, cpu.memory_bytes, fits_capped=False),
        categories=categories,
        allocated=float(usage.peak_allocated),
        reserved=float(usage.peak_reserved),
        device_bytes=total,
        usable=cpu.memory_bytes,
        peak=_peak_name(traced, usage.peak_position),
        holders=tuple(holders(traced, usage, traced.memory)),
        notes=(*traced.facts.notes, *traced.notes, "what kernels and malloc keep for themselves is not in it"),
    )


def _peak_name(traced: Trace, position: int) -> str:
    where = "setup"
    for step, phase, start in traced.marks:
        if start <= position:
            where = f"{phase} of step {step + 1}"
    return where


def _estimate(source: Source, workload: Workload, layout: Layout, gpu: Gpu, failure: Failure) -> MemoryPlan:
    outline = closed_form.measure_outline(source)
    categories = closed_form.estimate(outline, workload, layout)
    allocated = sum(categories.values())
    categories["fragmentation"] = 0.1 * allocated
    categories["context"] = overhead("context_gib") * GIB
    total = sum(categories.values())
    known = outline.activations is not None
    notes = [
        "this is a closed-form estimate, not a trace",
        failure.message,
        "activations are those that the forward pass keeps on the CPU"
        if known
        else f"activations are unknown ({outline.reason}): what is shown is a lower bound",
    ]
    verdict = verdict_of(total, gpu.memory_bytes, fits_capped=False)
    if verdict == "fits" and not known:
        verdict = "tight"
    return MemoryPlan(
        verdict=verdict,
        categories=categories,
        allocated=allocated,
        reserved=allocated * 1.1,
        device_bytes=total,
        usable=gpu.memory_bytes,
        peak="backward",
        holders=(),
        exact=False,
        notes=(*workload.notes, *notes),
    )
