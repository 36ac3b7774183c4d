"""`stoker monitor`: what the GPUs and the runs of this machine do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stoker.cli import monitor_stack
from stoker.cli.monitor_demo import demo
from stoker.cli.monitor_top import top

app = typer.Typer(
    name="monitor",
    help="What the GPUs and the runs of this machine do, for Prometheus and for people.",
    no_args_is_help=True,
)

Listen = Annotated[str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen.")]
WebConfig = Annotated[
    Path | None,
    typer.Option("--web-config", metavar="FILE", help="Prometheus's web-config file: TLS and passwords."),
]
LISTEN = "127.0.0.1:9836"


@app.callback()
def _monitor() -> None:
    """Keep the commands below one name."""


@app.command()
def serve(
    listen: Listen = LISTEN,
    web_config: WebConfig = None,
    interval: Annotated[
        float, typer.Option("--interval", metavar="SECONDS", help="Between two samples of what is cheap to ask.")
    ] = 5.0,
    slow_interval: Annotated[
        float,
        typer.Option("--slow-interval", metavar="SECONDS", help="Between two of process lists, PCIe and errors."),
    ] = 60.0,
    limit: Annotated[
        float, typer.Option("--limit", metavar="SECONDS", help="After this a driver call counts as blocked.")
    ] = 10.0,
    runs: Annotated[
        list[Path] | None,
        typer.Option("--runs", metavar="FOLDER", help="A further place where runs register; may be repeated."),
    ] = None,
) -> None:
    """Answer Prometheus at /metrics: GPUs, host, and every stoker run on this machine.

    Needs no root, and no GPU to start: without a driver it says so in a metric.
    """
    _need_nvml()
    import os
    import sys

    from stoker.monitor.gpu.intervals import Intervals
    from stoker.monitor.serve import ServeOptions, as_words, check

    options = ServeOptions(listen, web_config, runs or (), Intervals(interval, slow_interval, limit))
    check(options)
    # This process becomes the server, and leaves the command line's libraries behind. -P: what lies in the present
    # folder is no part of it.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "stoker.monitor", *as_words(options)])


@app.command()
def unit(listen: Listen = LISTEN, web_config: WebConfig = None) -> None:
    """Print a systemd unit that runs `serve` as an unprivileged user."""
    from stoker.monitor.unit import unit_text

    typer.echo(unit_text(listen, web_config), nl=False)


monitor_stack.add_to(app)


def _need_nvml() -> None:
    from importlib.util import find_spec

    from stoker.errors import UserError

    if find_spec("pynvml") is None:
        raise UserError("the monitor needs nvidia-ml-py, which is not installed here: pip install 'stoker[monitor]'")


app.command()(top)
app.command()(demo)
