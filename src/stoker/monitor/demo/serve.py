"""`stoker monitor demo`: page and metrics of the simulated machine over HTTP."""

from __future__ import annotations

from dataclasses import replace

from stoker.monitor.demo.machine import DemoMachine
from stoker.monitor.feed import EVERY, Feed
from stoker.monitor.page.route import PageRoute
from stoker.monitor.serve import answer_until_told, parse_listen
from stoker.monitor.watch import Watch
from stoker.monitor.web.access import Access
from stoker.monitor.web.metrics import MetricsRoute
from stoker.monitor.web.routes import Request, Response, Route, make_routes
from stoker.monitor.web.server import MonitorServer

MARK = b"""\
# These values are simulated: they come from a scenario, not from hardware.
# HELP stoker_exporter_simulated 1: nothing here was measured
# TYPE stoker_exporter_simulated gauge
stoker_exporter_simulated 1
"""


def serve_demo(listen: str) -> None:
    """Serve until SIGTERM or an interrupt.

    Args:
        listen: Host and port.

    Raises:
        UserError: The address cannot be listened on.
    """
    address = parse_listen(listen)
    machine = DemoMachine()
    watch = machine.watched()
    access = Access(None)
    server = MonitorServer(address, demo_routes(machine, watch), access)
    feed = Feed(machine.sample, watch)
    feed.start()
    answer_until_told(server, access)
    feed.stop()


def demo_routes(machine: DemoMachine, watch: Watch, *, refresh: float = EVERY) -> dict[str, Route]:
    """The routes of a real machine; its metrics say that they are simulated, as all its screens do.

    Args:
        machine: Gives the metrics.
        watch: Gives the page.
        refresh: Seconds after which an open page looks for new values.
    """
    routes = make_routes(machine, MetricsRoute(machine), PageRoute(watch, refresh=refresh))
    return {**routes, "/metrics": _marked(routes["/metrics"])}


def _marked(route: Route) -> Route:
    def answer(request: Request) -> Response:
        response = route(request)
        return replace(response, body=MARK + response.body)

    return answer
