"""`stoker plan memory`, `speed` and `calibrate`: will it fit, and how fast will it be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from stoker.cli.answer import block
from stoker.cli.option_group import with_group
from stoker.cli.progress import progress
from stoker.errors import ExitCode, UserError

if TYPE_CHECKING:
    from stoker.forecast.request import Options, Planned

Target = Annotated[
    str,
    typer.Argument(
        help="A run file, module:callable, path.py:callable, a config.json, or the name of a torchvision model."
    ),
]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Fields of a run file to set instead: key.path=value.", show_default=False)
]
Precision = Annotated[
    str | None, typer.Option("--precision", help="fp32, tf32, bf16, fp16, fp8, bf16-pure, fp16-pure. Default: bf16.")
]
Checkpointing = Annotated[
    str | None, typer.Option("--checkpointing", help="none, full, selective, selective-layer. Default: none.")
]
Optimizer = Annotated[str | None, typer.Option("--optimizer", help="adamw, adamw-fused, adam, sgd, ...")]
Sequence = Annotated[int | None, typer.Option("--sequence", min=1, help="Tokens per sample of language models.")]
ImageSize = Annotated[int | None, typer.Option("--image-size", min=8, help="Height and width of images. Default: 224.")]
Profile = Annotated[Path | None, typer.Option("--profile", help="File written by `stoker plan calibrate`.")]
Network = Annotated[str, typer.Option(help="Link between nodes, such as ib-400 or roce-400.")]
GpusPerNode = Annotated[int, typer.Option(min=1, help="GPUs in one machine; more reach over the network.")]
Form = Annotated[Literal["text", "json"], typer.Option("--format", help="How to print.")]


@dataclass(frozen=True)
class Asked:
    """What `plan memory` and `plan speed` both take."""

    target: Target
    overrides: Overrides = None
    gpu: Annotated[str, typer.Option("--gpu", help="GPU model, such as 'RTX 4090'; `cpu` for this machine's.")] = (
        "H100 SXM"
    )
    gpus: Annotated[int | None, typer.Option("--gpus", min=1, max=4096, help="Number of GPUs.")] = None
    layout: Annotated[
        str,
        typer.Option(
            "--layout", help="Such as ddp=8, fsdp2=8,tp=2 or hsdp=4x8. Default: as the run file says, or fsdp2."
        ),
    ] = ""
    precision: Precision = None
    checkpointing: Checkpointing = None
    micro_batch: Annotated[
        int | None, typer.Option("--micro-batch", min=1, help="Samples per GPU and forward pass. Default: 1.")
    ] = None
    accumulation: Annotated[
        int | None, typer.Option("--accumulation", min=1, help="Micro-batches per step. Default: 1.")
    ] = None
    optimizer: Optimizer = None
    sequence: Sequence = None
    image_size: ImageSize = None
    compiled: Annotated[bool, typer.Option("--compile", help="The model will run under torch.compile.")] = False
    profile: Profile = None
    output: Form = "text"
    html: Annotated[
        Path | None, typer.Option("--html", help="Also write a page with time lines that opens offline.")
    ] = None

    def options(self) -> Options:
        """What a run file would say."""
        from stoker.forecast.request import Options

        return Options(
            precision=self.precision,
            checkpointing=self.checkpointing,
            micro_batch=self.micro_batch,
            accumulation=self.accumulation,
            optimizer=self.optimizer,
            sequence=self.sequence,
            image_size=self.image_size,
        )

    def resolve(self) -> Planned:
        """The workload, the device and the layout."""
        from stoker.forecast.request import resolve
        from stoker.report.write import check_place

        if self.html is not None:
            check_place(self.html)
        return resolve(
            self.target,
            self.overrides or [],
            self.options(),
            gpu=self.gpu,
            gpus=self.gpus,
            layout=self.layout,
            profile=self.profile,
            say=note,
        )

    def say(self, planned: Planned, text: str, data: dict[str, Any]) -> None:
        """Print the answer in the form that is asked for."""
        head = {"gpu": planned.gpu.name, "layout": str(planned.layout)}
        typer.echo(json.dumps({**head, **data}, indent=1) if self.output == "json" else text)

    def write(self, page: str) -> None:
        """Write the page and say where it is."""
        from stoker.report.write import write_aside

        assert self.html is not None
        note(f"the page is {write_aside(self.html, page)}")


def note(sentence: str) -> None:
    """Tell the person, beside the answer."""
    typer.echo(sentence, err=True)


@with_group(Asked)
def memory(
    asked: Asked,
    expandable_segments: Annotated[bool, typer.Option(help="As in PYTORCH_CUDA_ALLOC_CONF.")] = False,
) -> None:
    """Will it fit: memory per GPU over two training steps, by what holds it. Exit code 1 if not."""
    from stoker.plan.allocator import Options
    from stoker.plan.memory import plan_memory
    from stoker.plan.memory_page import memory_page
    from stoker.plan.text import memory_text
    from stoker.plan.timeline import timeline_of

    planned = asked.resolve()
    gpu, layout = planned.gpu, planned.layout
    options = Options(expandable_segments=expandable_segments)
    plan, reply = plan_memory(planned.source, layout, gpu, options=options, compiled=asked.compiled)
    timeline = timeline_of(plan, reply.traces, layout, gpu, options)
    data = {**plan.to_json(), "timeline": None if timeline is None else timeline.to_json()}
    asked.say(planned, memory_text(plan, gpu, layout, block=block()), data)
    if asked.html is not None:
        facts = reply.traces[0].facts if reply.traces else asked.target
        asked.write(memory_page(plan, timeline, gpu, layout, facts))
    if plan.verdict == "does not fit":
        raise typer.Exit(ExitCode.FAILED)


@with_group(Asked)
def speed(
    asked: Asked,
    network: Network = "ib-400",
    link: Annotated[
        str | None,
        typer.Option(help="Link between the GPUs of a node, such as nvlink3 or pcie4-nop2p. Default: the GPU's."),
    ] = None,
    gpus_per_node: GpusPerNode = 8,
    loader_rate: Annotated[float | None, typer.Option(help="Samples/s per GPU from the data loader.")] = None,
    storage_gbs: Annotated[float, typer.Option(help="GB/s at which checkpoints are written.")] = 2.0,
    failure_hours: Annotated[
        float | None,
        typer.Option(
            "--gpu-hours-between-failures",
            min=1.0,
            help="For the time between checkpoints and the goodput. Default: 50,700, as Llama 3 saw.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """How fast: step time and throughput as a range, and what bounds it."""
    from stoker.plan.memory import plan_memory
    from stoker.plan.scaling import scaling_curve
    from stoker.plan.speed import Conditions, pipeline_timeline, plan_speed, step_timeline
    from stoker.plan.speed_page import SpeedCharts, speed_page
    from stoker.plan.text import speed_text

    given = Conditions(
        network=network,
        link=link,
        gpus_per_node=gpus_per_node,
        compiled=asked.compiled,
        loader_rate=loader_rate,
        storage_gbs=storage_gbs,
        gpu_hours=failure_hours,
    )
    planned = asked.resolve()
    gpu, layout = planned.gpu, planned.layout
    held, reply = plan_memory(planned.source, layout, gpu, compiled=asked.compiled)
    if reply.failure is not None:
        raise UserError(f"the speed cannot be planned without a trace: {reply.failure.message}")
    traces = reply.traces
    plan, streams = plan_speed(traces, layout, gpu, given), step_timeline(traces, layout, gpu, given)
    scaling = None
    if asked.html is not None:
        with progress() as tell:
            scaling = scaling_curve(planned.source, traces, layout, gpu, given, tell=tell)
    data = {
        "memory": held.verdict,
        **plan.to_json(),
        "timeline": streams.to_json(),
        "scaling": None if scaling is None else scaling.to_json(),
    }
    asked.say(planned, speed_text(plan, held, gpu, layout, block=block()), data)
    if scaling is not None:
        charts = SpeedCharts(streams, pipeline_timeline(traces, layout, gpu, given), scaling)
        asked.write(speed_page(plan, held.verdict, charts, gpu, layout, traces[0].facts))


def calibrate(
    output: Annotated[Path, typer.Option("--output", "-o", help="Profile file to write.")] = Path("profile.json"),
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cuda",
) -> None:
    """Time operators on this machine; the file replaces the table of efficiencies."""
    from stoker.plan.calibrate import measure

    profile = measure(device)
    profile.save(output)
    typer.echo(f"{len(profile.samples)} measurements of {profile.device} written to {output}")
