"""`stoker plan search`: the best layout on given servers, or the cheapest servers for a deadline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.cli.plan_memory import Form, ImageSize, Network, Optimizer, Overrides, Precision, Sequence, Target
from stoker.cli.progress import progress
from stoker.errors import ExitCode, UserError

if TYPE_CHECKING:
    from stoker.forecast.search import Task
    from stoker.plan.search.outcome import Found


def search(
    target: Target,
    overrides: Overrides = None,
    gpu: Annotated[
        list[str] | None, typer.Option("--gpu", metavar="NAME", help="A GPU model; several times to compare several.")
    ] = None,
    servers: Annotated[
        int, typer.Option("--servers", min=1, max=512, help="How many servers; with --deadline how many at most.")
    ] = 1,
    gpus_per_server: Annotated[int, typer.Option("--gpus-per-server", min=1, max=8, help="GPUs in each.")] = 8,
    network: Network = "ib-400",
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="TIME", help="Find the cheapest that is done in '30 days'.")
    ] = None,
    tokens: Annotated[float | None, typer.Option("--tokens", min=1, help="To train on in all. Default: 1e9.")] = None,
    samples: Annotated[
        float | None, typer.Option("--samples", min=1, help="To train on in all. Default: the run file's, or 1e6.")
    ] = None,
    global_batch: Annotated[
        int | None, typer.Option("--global-batch", min=1, help="Samples per step. Default: 2^20 tokens, or 256.")
    ] = None,
    price: Annotated[
        list[str] | None, typer.Option("--price", metavar="NAME=VALUE", help="Of an hour of one GPU of a model.")
    ] = None,
    precision: Precision = None,
    optimizer: Optimizer = None,
    sequence: Sequence = None,
    image_size: ImageSize = None,
    finalists: Annotated[
        int, typer.Option("--finalists", min=1, max=20, help="Layouts of each GPU model to trace in full.")
    ] = 2,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the best that can be trained as a run file.")
    ] = None,
    output: Form = "text",
) -> None:
    """Find the best layout and micro-batch on given servers, or the cheapest servers for a deadline.

    Every layout (single, DDP, FSDP2, HSDP, tensor and pipeline parallel), checkpointing and micro-batch is
    estimated from small traces; the best are traced in full. Exit code 1 if nothing fits.
    """
    from stoker.forecast.request import Options
    from stoker.forecast.search import read_places, read_task
    from stoker.plan.search.find import Search
    from stoker.plan.search.outcome import best

    places = read_places(
        gpu or ["H100 SXM"],
        servers=servers,
        per_server=gpus_per_server,
        network=network,
        prices=price or [],
        several=deadline is not None,
    )
    task = read_task(
        target,
        overrides or [],
        Options(precision=precision, optimizer=optimizer, sequence=sequence, image_size=image_size),
        places=places,
        global_batch=global_batch,
        tokens=tokens,
        samples=samples,
        deadline=deadline,
    )
    if write is not None and task.loaded is None:
        raise UserError("--write needs a run file as MODEL: only that says the task and its data")
    with progress() as tell:
        found = Search(task.family, task.goal, precision=task.precision, finalists=finalists, tell=tell).run(places)
    _print(task, found, output)
    if write is not None:
        _write(task, found, write)
    if best(found.options, task.goal) is None:
        raise typer.Exit(ExitCode.FAILED)


def _print(task: Task, found: Found, output: str) -> None:
    from stoker.plan.search.outcome import best, unbeaten
    from stoker.plan.search.text import sentences, table_of

    goal = task.goal
    if output == "json":
        winner, stars = best(found.options, goal), unbeaten(found.options)
        rows = [{**one.to_json(), "best": one is winner, "unbeaten": one in stars} for one in found.options]
        goals = {"global_batch": goal.global_batch, "samples": goal.samples, "deadline_hours": goal.deadline_hours}
        typer.echo(json.dumps({"model": task.family.name, **goals, "options": rows, "notes": found.notes}, indent=1))
        return
    from rich.console import Console

    console = Console()
    console.width = max(console.width, 160)  # a terminal that is narrower breaks the lines itself
    typer.echo(f"{task.family.name}: {goal.global_batch} samples per step, {goal.samples:,.0f} samples in all")
    if found.options:
        console.print(table_of(found, goal))
        typer.echo("> to take, * beaten by no other in time, memory, GPU hours and energy at once")
    for sentence in sentences(found, goal):
        typer.echo(sentence)


def _write(task: Task, found: Found, file: Path) -> None:
    from stoker.forecast.search import run_file_text, winning_spec
    from stoker.report.write import write_aside

    assert task.loaded is not None
    fields, option = winning_spec(task.loaded, found, task.goal)
    write_aside(file, run_file_text(fields, option))
    typer.echo(f"wrote {file}: stoker train {file}", err=True)
