"""`stoker plan`: answers before anything is bought, installed or started."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from stoker.cli import plan_compare, plan_memory, plan_power, plan_search, plan_topology

if TYPE_CHECKING:
    from stoker.plan.versions.machine import Machine
    from stoker.plan.versions.model import Request

plan = typer.Typer(
    help="Will it fit, how fast, on what, with which versions and power?",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Form = Literal["commands", "requirements", "uv", "conda", "containerfile", "ansible"]
Format = Literal["text", "json"]

plan.command()(plan_memory.memory)
plan.command()(plan_memory.speed)
plan.command()(plan_search.search)
plan.command()(plan_memory.calibrate)
plan.command()(plan_compare.compare)
plan.command()(plan_power.power)
plan.command()(plan_topology.topology)


@plan.command()
def versions(
    gpu: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|PCI-ID|CAPABILITY", help="A card that must work; several times for several."),
    ] = None,
    this_machine: Annotated[
        bool, typer.Option("--this-machine", help="Take cards, driver, system and Python from this machine.")
    ] = False,
    lspci: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Take the cards from the output of `lspci -nn`.")
    ] = None,
    driver: Annotated[
        str | None,
        typer.Option(metavar="VERSION|BRANCH|any", help="The driver that is there; `any` if it is free."),
    ] = None,
    driver_may_change: Annotated[
        bool, typer.Option("--driver-may-change", help="Another driver may be installed if it is needed.")
    ] = False,
    os: Annotated[str | None, typer.Option(metavar="NAME-VERSION", help="Such as ubuntu-24.04 or rocky-9.")] = None,
    glibc: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Of the machine, if the system is not known.")
    ] = None,
    python: Annotated[str | None, typer.Option(metavar="VERSION", help="Such as 3.12.")] = None,
    platform: Annotated[
        Literal["x86_64", "aarch64"] | None, typer.Option(help="The processor; from the cards if not given.")
    ] = None,
    torch: Annotated[str | None, typer.Option(metavar="VERSION", help="Such as 2.14, '>=2.9' or 2.9.1+cu128.")] = None,
    tensorflow: Annotated[
        str | None, typer.Option(metavar="VERSION|any", help="Also TensorFlow, in the same environment.")
    ] = None,
    no_torch: Annotated[bool, typer.Option("--no-torch", help="TensorFlow alone.")] = False,
    requirements: Annotated[
        Path | None,
        typer.Option("--requirements", "-r", metavar="FILE", help="Keep to this requirements file."),
    ] = None,
    plain_pip: Annotated[
        bool, typer.Option("--plain-pip", help="Only the default index: what `pip install torch` can bring.")
    ] = False,
    allow_unsure: Annotated[
        bool, typer.Option("--allow-unsure", help="Also builds whose publication is not confirmed.")
    ] = False,
    as_: Annotated[Form | None, typer.Option("--as", help="Print the set in this form and nothing else.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Judge the installed packages instead of choosing new ones.")
    ] = False,
    check_python: Annotated[
        Path | None, typer.Option(metavar="PYTHON", help="With --check: the interpreter to look at.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = "text",
) -> None:
    """Find the newest versions that work together: driver, kernel modules, CUDA, torch and its libraries.

    Everything that is not given is free. Each constraint is explained with its source; where nothing works,
    the nearest that would is shown.
    """
    from stoker.plan.versions.machine import read_machine
    from stoker.plan.versions.request import build_request

    check = check or check_python is not None
    machine = read_machine() if this_machine or check else None
    request = build_request(
        gpus=gpu or [],
        machine=machine,
        lspci=lspci,
        driver=driver,
        driver_may_change=driver_may_change,
        os=os,
        glibc=glibc,
        python=python,
        platform=platform,
        torch=torch,
        tensorflow=tensorflow,
        want_torch=not no_torch,
        requirements=requirements,
        plain_pip=plain_pip,
        allow_unsure=allow_unsure,
    )
    _note_unknown(machine)
    if check:
        _check(request, check_python, format_)
    else:
        _choose(request, as_, format_)


def _choose(request: Request, form: Form | None, format_: Format) -> None:
    import json

    from stoker.errors import ExitCode
    from stoker.plan.versions import solve
    from stoker.plan.versions.describe import to_data, to_text
    from stoker.plan.versions.emit import emit

    answer = solve(request)
    if format_ == "json":
        typer.echo(json.dumps(to_data(answer), indent=2, ensure_ascii=False))
    elif form is not None and answer.chosen is not None:
        typer.echo(emit(answer, form), nl=False)
    else:
        typer.echo(to_text(answer), nl=False, err=form is not None)
    if answer.chosen is None:
        raise typer.Exit(ExitCode.FAILED)


def _check(request: Request, python: Path | None, format_: Format) -> None:
    import json

    from stoker.errors import ExitCode
    from stoker.plan.versions.check import check, read_environment

    findings = check(read_environment(python), request)
    if format_ == "json":
        typer.echo(json.dumps([finding.to_json() for finding in findings], indent=2, ensure_ascii=False))
    else:
        for finding in findings:
            typer.echo(f"{finding.state}: {finding.title} [{finding.source or 'installed packages'}]")
            for evidence in finding.evidence:
                typer.echo(f"    seen: {evidence.text} ({evidence.source})")
            for step in (*finding.fix, *finding.collect):
                typer.echo(f"    do: {step}")
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(ExitCode.FAILED)


def _note_unknown(machine: Machine | None) -> None:
    for pci_id in machine.unknown_ids if machine else ():
        typer.echo(f"note: the card {pci_id} is in no table and was left out", err=True)
