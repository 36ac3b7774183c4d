"""Plans as people read them in a terminal."""

from __future__ import annotations

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.memory import MemoryPlan
from stoker.plan.speed import SpeedPlan
from stoker.report.bars import rough
from stoker.report.figures import duration


def gib(nbytes: float) -> str:
    """Bytes in GiB, in columns; in MiB below one GiB."""
    return f"{nbytes / (1 << 30):7.2f} GiB" if nbytes >= 1 << 30 else f"{nbytes / (1 << 20):7.1f} MiB"


BAR = 40
"""Letters of a bar that stands for everything."""


def memory_text(plan: MemoryPlan, gpu: Gpu, layout: Layout, *, block: str = "") -> str:
    """Verdict, what holds the memory at the peak, and what was assumed.

    Args:
        plan: The plan.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        block: Letter that bars are made of; empty for no bars.
    """
    usable, whole = plan.usable or 1, plan.device_bytes or 1.0
    lines = [
        f"{plan.verdict}: {gib(plan.device_bytes).strip()} of {usable / (1 << 30):.1f} GiB of {gpu.name}"
        f" ({plan.device_bytes / usable:.0%}), layout {layout}",
        *(
            f"  {name:14}{gib(value)}  {block * round(BAR * value / whole)}".rstrip()
            for name, value in plan.categories.items()
        ),
        f"  peak in the {plan.peak}; allocated {gib(plan.allocated).strip()}, reserved {gib(plan.reserved).strip()}",
    ]
    if plan.holders:
        held = ", ".join(f"{h.module} {gib(h.nbytes).strip()}" for h in plan.holders[:4])
        lines.append(f"  held by {held}")
    lines += [f"  note: {note}" for note in plan.notes]
    return "\n".join(lines)


def speed_text(plan: SpeedPlan, held: MemoryPlan, gpu: Gpu, layout: Layout, *, block: str = "") -> str:
    """Throughput and step time with their ranges, what bounds them, and what was assumed.

    Args:
        plan: The plan.
        held: Memory of the same.
        gpu: The planned GPU.
        layout: How ranks are arranged.
        block: Letter that bars are made of; empty for no bars.
    """
    step, rate = plan.step_seconds, plan.samples_per_second
    parts = plan.parts.items() if block else ()
    lines = [
        f"{rough(rate.expected)} samples/s ({rough(rate.low)} to {rough(rate.high)}) on {layout.ranks} x {gpu.name},"
        f" layout {layout}; memory: {held.verdict}",
        f"  step {duration(step.expected)} ({duration(step.low)} to {duration(step.high)})",
        f"  {rough(plan.tflops_per_gpu)} TFLOP/s per GPU, {plan.utilisation:.1%} of the dense peak",
        "  " + ", ".join(f"{name} {share:.0%}" for name, share in plan.parts.items()) + f"; bound by {plan.bound}",
        *(f"  {name:14}{share:6.0%}  {block * round(BAR * share)}".rstrip() for name, share in parts),
        f"  checkpoint {plan.goodput.checkpoint_gib:.1f} GiB,"
        f" every {plan.goodput.interval_seconds / 60:.0f} min, goodput {plan.goodput.share:.1%}",
    ]
    if plan.tokens_per_second_per_gpu is not None:
        tokens = plan.tokens_per_second_per_gpu
        lines.insert(1, f"  {rough(tokens.expected)} tokens/s per GPU ({rough(tokens.low)} to {rough(tokens.high)})")
    lines += [f"  assumed: {note}" for note in plan.assumptions]
    return "\n".join(lines)
