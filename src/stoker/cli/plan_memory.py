"""`stoker plan memory`, `speed` and `calibrate`: will it fit, and how fast will it be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stoker.errors import ExitCode, UserError

if TYPE_CHECKING:
    from stoker.plan.hardware import Gpu
    from stoker.plan.layout import Layout
    from stoker.plan.memory import MemoryPlan
    from stoker.plan.speed import SpeedPlan
    from stoker.plan.trace.run import Source

Target = Annotated[
    str,
    typer.Argument(help="module:callable, path.py:callable, a config.json, or the name of a torchvision model."),
]
GpuName = Annotated[str, typer.Option("--gpu", help="GPU model, such as 'H100 SXM' or 'RTX 4090'.")]
Gpus = Annotated[int | None, typer.Option("--gpus", min=1, max=4096, help="Number of GPUs.")]
LayoutText = Annotated[str, typer.Option("--layout", help="Such as ddp=8, fsdp2=8,tp=2 or hsdp=4x8.")]
PrecisionName = Annotated[str, typer.Option("--precision", help="fp32, tf32, bf16, fp16, bf16-pure, fp16-pure.")]
CheckpointingName = Annotated[str, typer.Option("--checkpointing", help="none, full, selective, selective-layer.")]
MicroBatch = Annotated[int, typer.Option("--micro-batch", min=1, help="Samples per GPU and forward pass.")]
Accumulation = Annotated[int, typer.Option("--accumulation", min=1, help="Micro-batches per step.")]
OptimizerText = Annotated[str | None, typer.Option("--optimizer", help="adamw, adamw-fused, adam, sgd, ...")]
Sequence = Annotated[int | None, typer.Option("--sequence", min=1, help="Tokens per sample of language models.")]
ImageSize = Annotated[int, typer.Option("--image-size", min=8, help="Height and width of images.")]
Compiled = Annotated[bool, typer.Option("--compile", help="The model will run under torch.compile.")]
Format = Annotated[str, typer.Option("--format", help="text or json.")]
Profile = Annotated[Path | None, typer.Option("--profile", help="File written by `stoker plan calibrate`.")]


def memory(
    target: Target,
    gpu: GpuName = "H100 SXM",
    gpus: Gpus = None,
    layout: LayoutText = "",
    precision: PrecisionName = "bf16",
    checkpointing: CheckpointingName = "none",
    micro_batch: MicroBatch = 1,
    accumulation: Accumulation = 1,
    optimizer: OptimizerText = None,
    sequence: Sequence = None,
    image_size: ImageSize = 224,
    compiled: Compiled = False,
    expandable_segments: Annotated[bool, typer.Option(help="As in PYTORCH_CUDA_ALLOC_CONF.")] = False,
    output: Format = "text",
) -> None:
    """Will it fit: memory per GPU over two training steps, by what holds it. Exit code 1 if not."""
    from stoker.plan.allocator import Options
    from stoker.plan.memory import plan_memory

    source = _source(target, precision, checkpointing, micro_batch, accumulation, optimizer, sequence, image_size)
    found, arranged = _place(gpu, gpus, layout)
    options = Options(expandable_segments=expandable_segments)
    plan, _ = plan_memory(source, arranged, found, options=options, compiled=compiled)
    if _as_json(output):
        typer.echo(json.dumps({"gpu": found.name, "layout": str(arranged), **plan.to_json()}, indent=1))
    else:
        typer.echo(_memory_text(plan, found, arranged))
    if plan.verdict == "does not fit":
        raise typer.Exit(ExitCode.FAILED)


def speed(
    target: Target,
    gpu: GpuName = "H100 SXM",
    gpus: Gpus = None,
    layout: LayoutText = "",
    precision: PrecisionName = "bf16",
    checkpointing: CheckpointingName = "none",
    micro_batch: MicroBatch = 1,
    accumulation: Accumulation = 1,
    optimizer: OptimizerText = None,
    sequence: Sequence = None,
    image_size: ImageSize = 224,
    compiled: Compiled = False,
    network: Annotated[str, typer.Option(help="Link between nodes, such as ib-400 or roce-400.")] = "ib-400",
    gpus_per_node: Annotated[int, typer.Option(min=1, help="GPUs in one machine; more reach over the network.")] = 8,
    loader_rate: Annotated[float | None, typer.Option(help="Samples/s per GPU from the data loader.")] = None,
    storage_gbs: Annotated[float, typer.Option(help="GB/s at which checkpoints are written.")] = 2.0,
    profile: Profile = None,
    output: Format = "text",
) -> None:
    """How fast: step time and throughput as a range, and what bounds it."""
    from stoker.plan.calibrate import read_profile
    from stoker.plan.memory import plan_memory
    from stoker.plan.speed import Conditions, plan_speed

    source = _source(target, precision, checkpointing, micro_batch, accumulation, optimizer, sequence, image_size)
    found, arranged = _place(gpu, gpus, layout)
    if profile is not None:
        found = found.with_efficiency(read_profile(profile).fractions(found))
    held, reply = plan_memory(source, arranged, found, compiled=compiled)
    if reply.failure is not None:
        raise UserError(f"the speed cannot be planned without a trace: {reply.failure.message}")
    given = Conditions(
        network=network,
        gpus_per_node=gpus_per_node,
        compiled=compiled,
        loader_rate=loader_rate,
        storage_gbs=storage_gbs,
    )
    plan = plan_speed(reply.traces, arranged, found, given)
    if _as_json(output):
        both = {"gpu": found.name, "layout": str(arranged), "memory": held.verdict, **plan.to_json()}
        typer.echo(json.dumps(both, indent=1))
    else:
        typer.echo(_speed_text(plan, held, found, arranged))


def calibrate(
    output: Annotated[Path, typer.Option("--output", "-o", help="Profile file to write.")] = Path("profile.json"),
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cuda",
) -> None:
    """Time some thirty operators on this machine; the file replaces the table of efficiencies."""
    from stoker.plan.calibrate import measure

    profile = measure(device)
    profile.save(output)
    typer.echo(f"{len(profile.samples)} measurements of {profile.device} written to {output}")


def _source(
    target: str,
    precision: str,
    checkpointing: str,
    micro_batch: int,
    accumulation: int,
    optimizer: str | None,
    sequence: int | None,
    image_size: int,
) -> Source:
    from stoker.plan.trace.run import Source
    from stoker.plan.workload import CHECKPOINTINGS, OPTIMIZERS, PRECISIONS

    mistakes = [
        f"{option} {value} is not known: write one of {', '.join(known)}"
        for option, value, known in (
            ("--precision", precision, PRECISIONS),
            ("--checkpointing", checkpointing, CHECKPOINTINGS),
            ("--optimizer", optimizer or OPTIMIZERS[0], OPTIMIZERS),
        )
        if value not in known
    ]
    if mistakes:
        raise UserError(*mistakes)
    changes: dict[str, Any] = {
        "precision": precision,
        "checkpointing": checkpointing,
        "accumulation": accumulation,
    }
    if optimizer is not None:
        changes["optimizer"] = optimizer
    arguments = {"target": target, "micro_batch": micro_batch, "image_size": image_size, "sequence": sequence}
    return Source("stoker.plan.workload:load_workload", arguments, changes)


def _place(gpu: str, gpus: int | None, layout: str) -> tuple[Gpu, Layout]:
    from stoker.plan.hardware import find_gpu
    from stoker.plan.layout import parse_layout

    text = layout or ("fsdp2" if gpus is not None and gpus > 1 else "single")
    return find_gpu(gpu), parse_layout(text, gpus)


def _as_json(output: str) -> bool:
    if output not in ("text", "json"):
        raise UserError(f"--format {output} is not known: write text or json")
    return output == "json"


def _gib(nbytes: float) -> str:
    return f"{nbytes / (1 << 30):7.2f} GiB"


def _memory_text(plan: MemoryPlan, gpu: Gpu, layout: Layout) -> str:
    usable = plan.usable or 1
    lines = [
        f"{plan.verdict}: {plan.device_bytes / (1 << 30):.1f} of {usable / (1 << 30):.1f} GiB of {gpu.name}"
        f" ({plan.device_bytes / usable:.0%}), layout {layout}",
        *(f"  {name:14}{_gib(value)}" for name, value in plan.categories.items()),
        f"  peak in the {plan.peak}; allocated {_gib(plan.allocated).strip()}, reserved {_gib(plan.reserved).strip()}",
    ]
    if plan.holders:
        held = ", ".join(f"{h.module} {_gib(h.nbytes).strip()}" for h in plan.holders[:4])
        lines.append(f"  held by {held}")
    lines += [f"  note: {note}" for note in plan.notes]
    return "\n".join(lines)


def _speed_text(plan: SpeedPlan, held: MemoryPlan, gpu: Gpu, layout: Layout) -> str:
    step, rate = plan.step_seconds, plan.samples_per_second
    lines = [
        f"{rate.expected:.4g} samples/s ({rate.low:.4g} to {rate.high:.4g}) on {layout.ranks} x {gpu.name},"
        f" layout {layout}; memory: {held.verdict}",
        f"  step {step.expected * 1e3:.4g} ms ({step.low * 1e3:.4g} to {step.high * 1e3:.4g})",
        f"  {plan.tflops_per_gpu:.4g} TFLOP/s per GPU, {plan.utilisation:.1%} of the dense peak",
        "  " + ", ".join(f"{name} {share:.0%}" for name, share in plan.parts.items()) + f"; bound by {plan.bound}",
        f"  checkpoint {plan.goodput.checkpoint_gib:.1f} GiB,"
        f" every {plan.goodput.interval_seconds / 60:.0f} min, goodput {plan.goodput.share:.1%}",
    ]
    if plan.tokens_per_second_per_gpu is not None:
        tokens = plan.tokens_per_second_per_gpu
        lines.insert(1, f"  {tokens.expected:.4g} tokens/s per GPU ({tokens.low:.4g} to {tokens.high:.4g})")
    lines += [f"  assumed: {note}" for note in plan.assumptions]
    return "\n".join(lines)
