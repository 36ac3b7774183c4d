"""`stoker plan power`: supplies, circuit, heat, cooling and energy of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from stoker.plan.feed import Circuit
    from stoker.plan.power import PowerPlan

Format = Literal["text", "json"]


def power(
    server: Annotated[
        str | None, typer.Option(metavar="NAME", help="A documented server: `stoker facts servers`.")
    ] = None,
    gpu: Annotated[str | None, typer.Option(metavar="NAME", help="The card, where the server is another.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many devices.")] = 8,
    other_watts: Annotated[
        float | None, typer.Option(min=0, metavar="W", help="Processors, memory, fans, disks, network.")
    ] = None,
    supplies: Annotated[str | None, typer.Option(metavar="NxW", help="Such as 2x1600.")] = None,
    spare: Annotated[int, typer.Option(help="How many supplies may fail.")] = 1,
    volts: Annotated[float, typer.Option(min=1, help="Of the feed; between phases where there are three.")] = 230,
    phases: Annotated[int, typer.Option(help="1 or 3.")] = 1,
    feeds: Annotated[int, typer.Option(min=1, help="Circuits that the supplies are spread over, such as A and B.")] = 1,
    breaker: Annotated[float | None, typer.Option(min=1, metavar="A", help="The breaker of each feed.")] = None,
    load: Annotated[float, typer.Option(min=0, max=1, help="Mean load over the year.")] = 1.0,
    pue: Annotated[float, typer.Option(min=1, help="Power of the site per power of the machines.")] = 1.0,
    price: Annotated[float | None, typer.Option(min=0, help="Of a kWh, for the running cost.")] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Supplies with redundancy, circuit, heat, cooling, energy and cost of a server.

    The exit code is 1 if something is unsafe.
    """
    from stoker.errors import ExitCode
    from stoker.plan.feed import Circuit

    _check_words(server, gpu, phases, own=supplies is not None or other_watts is not None)
    circuit = Circuit(volts, phases, breaker, feeds)
    answer = _plan(server, gpu or "", count, other_watts, supplies, spare, circuit)
    _print(answer, circuit, load, pue, price, format_)
    if any(finding.state == "fail" for finding in answer.findings):
        raise typer.Exit(ExitCode.FAILED)


def _check_words(server: str | None, gpu: str | None, phases: int, *, own: bool) -> None:
    from stoker.errors import UserError

    if (server is None) == (gpu is None):
        raise UserError("give either --server or --gpu")
    if server is not None and own:
        raise UserError("--supplies and --other-watts are for a server of your own: give --gpu instead of --server")
    if phases not in (1, 3):
        raise UserError(f"--phases {phases}: write 1 or 3")


def _plan(
    server: str | None,
    gpu: str,
    count: int,
    other_watts: float | None,
    supplies: str | None,
    spare: int,
    circuit: Circuit,
) -> PowerPlan:
    from stoker.facts.gpus import find_gpu
    from stoker.facts.servers import find_server
    from stoker.plan.feed import parse_supplies
    from stoker.plan.power import plan_gpus, plan_server

    if server is not None:
        return plan_server(find_server(server), circuit)
    given = parse_supplies(supplies, spare) if supplies else None
    return plan_gpus(find_gpu(gpu), count, circuit, supplies=given, other_w=other_watts)


def _print(answer: PowerPlan, circuit: Circuit, load: float, pue: float, price: float | None, format_: Format) -> None:
    import json
    from dataclasses import asdict

    from stoker.plan.power import M3_H_PER_CFM, WATER_WARMING_K, energy_kwh

    energy = energy_kwh(answer.server_w, load, pue)
    if format_ == "json":
        data = asdict(answer) | {"energy_kwh_per_year": energy, "cost_per_year": price and energy * price}
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    typer.echo(f"GPUs       {answer.gpu_w:,.0f} W")
    typer.echo(f"server     {answer.server_w:,.0f} W ({answer.basis})")
    failed = " with one feed failed" if circuit.feeds > 1 else ""
    typer.echo(f"current    {answer.amperes:.1f} A per phase{failed}, breaker at least {answer.breaker_a:.0f} A")
    typer.echo(f"heat       {answer.heat_btu_h:,.0f} BTU/h ({answer.heat_basis})")
    cfm = answer.airflow_m3_h / M3_H_PER_CFM
    typer.echo(f"air        {answer.airflow_m3_h:,.0f} m3/h ({cfm:,.0f} CFM) {answer.airflow_basis}")
    typer.echo(f"or liquid  {answer.water_l_min:.1f} l/min of water at {WATER_WARMING_K:g} K warming")
    _print_cooling(answer)
    cost = f", {energy * price:,.0f} at {price:g} per kWh" if price is not None else ""
    typer.echo(f"energy     {energy:,.0f} kWh per year at load {load:g} and PUE {pue:g}{cost}")
    for finding in answer.findings:
        typer.echo(f"{finding.state}: {finding.title}")
        for step in finding.fix:
            typer.echo(f"    do: {step}")


def _print_cooling(answer: PowerPlan) -> None:
    if not answer.cooling:
        typer.echo("  what air costs against liquid in speed is not known for these GPUs")
    for kind in answer.cooling:
        low, high = kind.temperature_c
        share = f"{kind.rate_share:.0%} of the rate, GPUs at {low:g} to {high:g} degrees Celsius"
        typer.echo(f"  {kind.cooling:<9}{share} ({kind.measured_as})")
    for source in dict.fromkeys(kind.source for kind in answer.cooling):
        typer.echo(f"  measured in {source}")
