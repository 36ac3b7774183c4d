"""`stoker monitor serve`: watches this machine and answers over HTTP until it is told to end."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stoker.errors import UserError
from stoker.monitor.feed import Feed
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.machine import Machine
from stoker.monitor.page.route import PageRoute
from stoker.monitor.watch import Watch
from stoker.monitor.web.access import Access
from stoker.monitor.web.metrics import MetricsRoute
from stoker.monitor.web.routes import make_routes
from stoker.monitor.web.server import MonitorServer
from stoker.run_status import registries

DEFAULT_LISTEN = "127.0.0.1:9836"
SWITCH = 0.0005
"""Seconds after which a thread lets another run: a scrape shall not wait for one that renders or reads."""
SIMULATION = "NVML_SIM_SCENARIO"
"""Set where a simulated driver library is loaded; see tests/nvml_sim."""


@dataclass(frozen=True)
class ServeOptions:
    """What was asked for.

    Attributes:
        listen: Host and port, such as `127.0.0.1:9836` or `[::1]:9836`.
        web_config: Prometheus's web-config file: TLS and passwords.
        runs: Further places where runs are looked for.
        intervals: How often the GPUs are asked.
    """

    listen: str = DEFAULT_LISTEN
    web_config: Path | None = None
    runs: Sequence[Path] = ()
    intervals: Intervals = field(default_factory=Intervals)


def as_words(options: ServeOptions) -> list[str]:
    """For another process to read by `from_words`."""
    timing = options.intervals
    first = [options.listen, str(options.web_config or ""), *map(str, (timing.fast, timing.slow, timing.limit))]
    return [*first, *map(str, options.runs)]


def from_words(words: Sequence[str]) -> ServeOptions:
    """The inverse of `as_words`."""
    listen, web_config, fast, slow, limit, *runs = words
    intervals = Intervals(float(fast), float(slow), float(limit))
    return ServeOptions(listen, Path(web_config) if web_config else None, [Path(run) for run in runs], intervals)


def check(options: ServeOptions) -> None:
    """See whether everything can be used, without starting anything.

    Raises:
        UserError: Something cannot.
    """
    parse_listen(options.listen)
    _check(options.intervals)
    Access(options.web_config)


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or an interrupt.

    Raises:
        UserError: An option cannot be used; nothing was started.
    """
    address = parse_listen(options.listen)
    _check(options.intervals)
    access = Access(options.web_config)
    machine = Machine(options.intervals, [*options.runs, *registries()], simulated=SIMULATION in os.environ)
    watch = Watch()
    metrics = MetricsRoute(machine)
    server = MonitorServer(address, make_routes(machine, metrics, PageRoute(watch)), access)
    machine.start()
    metrics.keep_ready(machine.sampler.news)
    feed = Feed(machine.sample, watch, every=options.intervals.fast)
    feed.start()
    answer_until_told(server, access)
    feed.stop()
    machine.stop()


def answer_until_told(server: MonitorServer, access: Access) -> None:
    """Answer until SIGTERM or an interrupt."""
    ended = threading.Event()

    def end(*_: object) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    sys.setswitchinterval(SWITCH)
    gc.collect()
    gc.freeze()  # what is loaded by now stays: no scrape waits while it is searched for garbage
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stderr.write(f"{_greeting(server, access)}\n")
    ended.wait()


def parse_listen(text: str) -> tuple[str, int]:
    """Host and port.

    Raises:
        UserError: It is neither `HOST:PORT` nor `PORT`.
    """
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise UserError(f"--listen {text}: write host:port, such as {DEFAULT_LISTEN}, or :9836 for every address")
    if not host:
        return ("0.0.0.0" if text.startswith(":") else "127.0.0.1"), int(port)
    return host.removeprefix("[").removesuffix("]"), int(port)


def _check(intervals: Intervals) -> None:
    if not (0.1 <= intervals.fast <= intervals.slow and intervals.limit >= 0.1):
        raise UserError(
            "--interval must be at least 0.1 s and not longer than --slow-interval, and --limit at least 0.1 s"
        )


def _greeting(server: MonitorServer, access: Access) -> str:
    host, port = server.server_address[:2]
    host = str(host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if access.tls() is not None else "http"
    open_to_all = not access.needs_password and host not in ("127.0.0.1", "::1")
    warning = "; anyone who reaches this address can read it: give it a --web-config" if open_to_all else ""
    return f"stoker monitor listens on {scheme}://{shown}:{port}{warning}"
