"""The page of `stoker plan memory`: the verdict, what holds the memory, and when. It opens offline."""

from __future__ import annotations

from pathlib import Path

from stoker.plan.hardware import GIB, Gpu, table
from stoker.plan.layout import Layout
from stoker.plan.memory import MemoryPlan, Verdict
from stoker.plan.text import gib
from stoker.plan.timeline import STACKED, MemoryTimeline
from stoker.plan.trace.log import Facts
from stoker.report.areas import Layer, Level, Stack, Stretch, area_panel
from stoker.report.charts import Part
from stoker.report.figures import percent, plural
from stoker.report.headline import Tile
from stoker.report.html import render_page
from stoker.report.panels import Panel, split_of
from stoker.report.sections import Section, Table

NEAR = 3.0
"""The capacity is drawn where it lies below so many times of what is reserved: else it would press the rest down."""
BADGES: dict[Verdict, str] = {"fits": "finished", "tight": "stopped", "does not fit": "failed"}
"""Class of the style sheet for a verdict."""
COLOURS = (*STACKED, "fragmentation", "context")
"""Categories in the order of the palette."""
_ASSUMED = ("context_gib", "nccl_gib", "cublas_workspace_mib", "cublas_workspace_hopper_mib", "fits_below")


def memory_page(plan: MemoryPlan, timeline: MemoryTimeline | None, gpu: Gpu, layout: Layout, facts: Facts | str) -> str:
    """The verdict, what holds the memory, and the memory over the traced steps by what holds it.

    Args:
        plan: The plan.
        timeline: Of the trace that it rests on; None where it is a closed-form estimate.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        facts: Of the workload; of an estimate only its name.
    """
    sections = [_parts(plan)]
    if timeline is not None:
        sections.append(Section("Memory over time", panels=[_panel(plan, timeline)], note=_note(plan, timeline)))
    if plan.holders:
        sections.append(_holders(plan))
    return render_page(
        "plan.html.j2",
        title=Path(facts if isinstance(facts, str) else facts.name).name,
        badge=(BADGES[plan.verdict], plan.verdict),
        what=_what(gpu, layout, facts),
        tiles=_tiles(plan, traced=timeline is not None),
        sections=sections,
        notes=plan.notes,
        assumptions=() if gpu.on_cpu else assumptions(gpu, layout),
    )


def _what(gpu: Gpu, layout: Layout, facts: Facts | str) -> str:
    said = f"{gpu.name}, layout {layout}"
    if isinstance(facts, str):
        return said
    return f"{said}, {facts.precision}, {plural(facts.micro_batch, 'sample')} in a forward pass"


def assumptions(gpu: Gpu, layout: Layout) -> list[str]:
    """What is no part of a trace, with its source."""
    hopper = gpu.capability >= (9, 0)
    unused = {"cublas_workspace_mib" if hopper else "cublas_workspace_hopper_mib"}
    unused |= set() if layout.ranks > 1 else {"nccl_gib"}
    rows = [row for row in table("overheads") if row["name"] in _ASSUMED and row["name"] not in unused]
    return [f"{row['name']}: {row['value']} {row['unit']}: {row['source']}" for row in rows]


def _tiles(plan: MemoryPlan, *, traced: bool) -> list[Tile]:
    usable = plan.usable or 0
    share = f"{percent(plan.device_bytes / usable)} of {gib(usable).strip()}" if usable else ""
    return [
        Tile("In all", gib(plan.device_bytes).strip(), share),
        Tile("Most allocated", gib(plan.allocated).strip(), f"in the {plan.peak}"),
        Tile("Most reserved", gib(plan.reserved).strip(), "by the allocator"),
        Tile("From", "a trace" if traced else "an estimate", "" if traced else "closed form, no time line"),
    ]


def _parts(plan: MemoryPlan) -> Section:
    parts = [(Part(name, nbytes, COLOURS.index(name)), gib(nbytes).strip()) for name, nbytes in plan.categories.items()]
    split = split_of("What holds the memory at the peak", parts, key="parts", whole=plan.usable)
    return Section("What holds the memory at the peak", split=split, note="In percent of what the device can give.")


def _panel(plan: MemoryPlan, timeline: MemoryTimeline) -> Panel:
    moments = timeline.moments
    layers = [Layer(name, [_drawn(one.held[index]) for one in moments], index) for index, name in enumerate(STACKED)]
    levels: list[Level] = []
    if any(one.reserved != one.allocated for one in moments):
        levels.append(Level("reserved", [_drawn(one.reserved) for one in moments]))
    if 0 < _room(plan) <= NEAR * plan.reserved:
        levels.append(Level("room for tensors", [_drawn(_room(plan))], dashed=True))
    setup = [Stretch("", 0)] if timeline.phases and timeline.phases[0].phase == "setup" else []
    begins = {one.step: one.at for one in reversed(timeline.phases) if one.phase != "setup"}
    stack = Stack(
        places=[one.at for one in moments],
        end=timeline.end,
        layers=layers,
        levels=levels,
        parts=[Stretch(one.phase, one.at) for one in timeline.phases],
        groups=[*setup, *(Stretch(f"step {step + 1}", at) for step, at in sorted(begins.items()))],
        mark=moments.index(timeline.peak),
    )
    return area_panel("GiB in use", stack, key="memory", unit="GiB", note="at the peak")


def _drawn(nbytes: float) -> float:
    """GiB to a tenth of a MiB."""
    return round(nbytes / GIB, 4)


def _room(plan: MemoryPlan) -> float:
    """What tensors can take of the device: all but context and libraries."""
    return (plan.usable or 0) - (plan.device_bytes - plan.reserved)


def _note(plan: MemoryPlan, timeline: MemoryTimeline) -> str:
    said = [
        "One allocation or release after the other; the first step makes the state of the optimizer. Phases too narrow "
        "for their names have their initials above.",
        f"At the peak tensors hold {gib(timeline.peak.total).strip()},"
        f" {gib(timeline.peak.allocated).strip()} as the allocator rounds them.",
        f"Tensors have room for {gib(_room(plan)).strip()}: the device without context and libraries.",
    ]
    if abs(plan.reserved - max(one.reserved for one in timeline.moments)) >= 1:
        said.append("The time line is that of eager execution; the figures above are for torch.compile.")
    return " ".join(said)


def _holders(plan: MemoryPlan) -> Section:
    rows = [
        (one.module, gib(one.nbytes).strip(), percent(one.nbytes / plan.allocated) if plan.allocated else "")
        for one in plan.holders
    ]
    heads = ("allocated in the forward pass of", "holds at the peak", "of what is in use")
    note = "In brackets: what no module's forward pass allocated."
    return Section("Modules that hold the peak", table=Table(heads, rows), note=note)
