"""`stoker monitor render`, `up` and `relay`: the stack of Prometheus, Alertmanager and Grafana."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoker.errors import UserError

if TYPE_CHECKING:
    from stoker.monitor.notify.settings import Notify

PORTS = {"exporter": 9836, "relay": 9837, "alertmanager": 9093, "prometheus": 9090, "grafana": 3000}

TargetOption = Annotated[
    list[str],
    typer.Option(
        "--target",
        "-t",
        metavar="EXPORTER=HOST:PORT",
        help="What to scrape: stoker, dcgm, nvidia or node. Can be given several times.",
    ),
]
NotifyOption = Annotated[
    Path | None,
    typer.Option("--notify", metavar="FILE", help="Who is told: e-mail, webhooks, DingTalk, WeCom, Feishu."),
]
SetOption = Annotated[
    list[str], typer.Option("--set", metavar="NAME=VALUE", help="Change a figure of the alerts. Several times.")
]
GuidesOption = Annotated[
    bool, typer.Option("--guides", help="Load the plain thresholds of many guides (85 degrees, 20 %, 95 %) too.")
]


def render(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; existing files are replaced.")],
    target: TargetOption = [],  # noqa: B006  # typer reads the default and never changes it
    notify: NotifyOption = None,
    change: SetOption = [],  # noqa: B006
    guides: GuidesOption = False,
    prometheus: Annotated[
        str, typer.Option("--prometheus", metavar="URL", help="Where Grafana reaches Prometheus.")
    ] = f"http://127.0.0.1:{PORTS['prometheus']}",
    alertmanager: Annotated[
        str, typer.Option("--alertmanager", metavar="HOST:PORT", help="Where Prometheus reaches Alertmanager.")
    ] = f"127.0.0.1:{PORTS['alertmanager']}",
) -> None:
    """Write all files for an existing stack: rules, dashboards, configurations, runbooks.

    Nothing is started. Prometheus needs DIR/prometheus, Alertmanager DIR/alertmanager, Grafana DIR/grafana.
    """
    from stoker.monitor.stack.render import Stack, read_target, stack_files, write_files

    stack = Stack(
        targets=[read_target(one) for one in target or ["stoker=127.0.0.1"]],
        notify=_notify(notify),
        thresholds=_changes(change),
        guides=guides,
        prometheus=prometheus,
        alertmanager=alertmanager,
    )
    files = stack_files(stack)
    write_files(folder, files)
    typer.echo(f"{len(files)} files in {folder}")


def up(
    folder: Annotated[
        Path, typer.Option("--dir", help="Of the generated files, the data and the logs.", show_default=True)
    ] = Path("stoker-monitor"),
    target: TargetOption = [],  # noqa: B006
    notify: NotifyOption = None,
    change: SetOption = [],  # noqa: B006
    guides: GuidesOption = False,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen at; others can reach it unless loopback.")
    ] = "127.0.0.1",
    port: Annotated[
        list[str],
        typer.Option("--port", metavar="SERVICE=NUMBER", help=f"Another port for {', '.join(PORTS)}."),
    ] = [],  # noqa: B006
    keep_days: Annotated[int, typer.Option("--keep-days", min=1, help="How long Prometheus keeps samples.")] = 15,
) -> None:
    """Run exporter, Prometheus and Alertmanager on this machine, Grafana too where it is installed.

    The configuration is generated; Ctrl-C ends all. With --target, those are scraped and no exporter is started.
    """
    from stoker.monitor.stack.up import Wanted, run

    run(
        Wanted(
            folder=folder,
            targets=target,
            notify=_notify(notify),
            notify_file=notify,
            thresholds=_changes(change),
            guides=guides,
            host=host,
            ports=PORTS | _ports(port),
            keep_days=keep_days,
        ),
        typer.echo,
    )


def relay(
    notify: Annotated[Path, typer.Argument(metavar="FILE", help="The notify file with the robots.")],
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where Alertmanager reaches it.")
    ] = f"127.0.0.1:{PORTS['relay']}",
) -> None:
    """Pass Alertmanager's notifications on to the robots of DingTalk, WeCom and Feishu.

    Alertmanager posts to /dingtalk, /wecom or /feishu. A robot that refuses makes Alertmanager try again.
    """
    import logging

    from stoker.monitor.notify.relay import Relay

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    settings = _notify(notify)
    if not settings.robots():
        raise UserError(f"there is no robot in {notify}: write dingtalk, wecom or feishu with its url")
    host, _, port = listen.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"--listen {listen}: write HOST:PORT, such as 127.0.0.1:{PORTS['relay']}")
    with Relay((host.strip("[]"), int(port)), settings) as server:
        typer.echo(f"listening at {listen} for {', '.join(settings.robots())}")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended")


def _notify(path: Path | None) -> Notify:
    from stoker.monitor.notify.settings import Notify, read_notify

    return Notify() if path is None else read_notify(path)


def _pairs(option: str, words: list[str]) -> dict[str, str]:
    pairs = {name: value for name, equals, value in (word.partition("=") for word in words) if equals}
    if len(pairs) != len(words):
        raise UserError(f"{option}: write NAME=VALUE, each name once; got {' '.join(words)}")
    return pairs


def _changes(words: list[str]) -> dict[str, float]:
    try:
        return {name: float(value) for name, value in _pairs("--set", words).items()}
    except ValueError as error:
        raise UserError(f"--set: a threshold is a number: {error}") from error


def _ports(words: list[str]) -> dict[str, int]:
    pairs = _pairs("--port", words)
    for name, value in pairs.items():
        if name not in PORTS or not value.isdigit() or not 0 < int(value) < 65536:
            raise UserError(f"--port {name}={value}: write one of {', '.join(PORTS)} and a number up to 65535")
    return {name: int(value) for name, value in pairs.items()}


def add_to(app: typer.Typer) -> None:
    """Add these commands to the group `monitor`."""
    for command in (render, up, relay):
        app.command()(command)
