"""`stoker plan topology`: what hangs where in a server, and what flows between."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Format = Literal["text", "json"]


def topology(
    server: Annotated[
        str | None,
        typer.Argument(help="A known server, a TOML file, or what `nvidia-smi topo -m` printed; none lists them."),
    ] = None,
    gpu: Annotated[str, typer.Option(metavar="NAME", help="The card, where the file does not name it.")] = "",
    servers: Annotated[int, typer.Option(min=1, help="How many of them train together.")] = 1,
    dataset_gb: Annotated[float | None, typer.Option(min=0.001, help="Size of the data, 10^9 bytes.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Samples in the data.")] = None,
    bytes_per_sample: Annotated[float | None, typer.Option(min=1, help="Mean size of a sample as stored.")] = None,
    samples_per_second: Annotated[float | None, typer.Option(min=0.001, help="Of the whole job.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="How often the data is read.")] = 1,
    fill_hours: Annotated[float, typer.Option(min=0.1, help="In which the object store fills Ceph.")] = 24,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Which slots share a link, how fast each pair of GPUs is, what the network and the storage must carry.

    The exit code is 1 if something does not work out.
    """
    import json

    from stoker.errors import ExitCode
    from stoker.plan.topology.describe import to_text
    from stoker.plan.topology.plan import plan_topology
    from stoker.plan.topology.read import find_server, known_servers
    from stoker.plan.topology.storage import read_data

    if server is None:
        for known in known_servers().values():
            typer.echo(f"{known.name}: {known.gpus} x {known.gpu}")
        return
    data = read_data(
        dataset_gb=dataset_gb,
        samples=samples,
        bytes_per_sample=bytes_per_sample,
        samples_per_second=samples_per_second,
        epochs=epochs,
    )
    plan = plan_topology(find_server(server, gpu), servers=servers, data=data, fill_hours=fill_hours)
    if format_ == "json":
        typer.echo(json.dumps(plan.to_json(), indent=2, ensure_ascii=False))
    else:
        typer.echo(to_text(plan), nl=False)
    if any(finding.state == "fail" for finding in plan.findings):
        raise typer.Exit(ExitCode.FAILED)
