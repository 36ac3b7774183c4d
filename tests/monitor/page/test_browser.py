"""The page as a person has it: in a real browser, from the real server, with the simulated machine."""

from __future__ import annotations

import http.client
import re
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from stoker.monitor.demo.machine import DemoMachine
from stoker.monitor.demo.serve import demo_routes
from stoker.monitor.web.access import Access
from stoker.monitor.web.server import MonitorServer
from tests.browser import CHROMIUM, Browser, browser
from tests.monitor.samples import TIME
from tests.pictures import keep_png

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium"),
    pytest.mark.slow,
]

SELECTOR = re.compile(r"(\w+)(?:\{(.*)\})?")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Site:
    """The demo's server, whose time stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.machine = DemoMachine(lambda: self.now, begin=TIME)
        self.watch = self.machine.watched()
        routes = demo_routes(self.machine, self.watch, refresh=0.3)
        self.server = MonitorServer(("127.0.0.1", 0), routes, Access(None))
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 10)
            self.watch.take(self.machine.sample(), self.now)

    def address(self, query: str = "") -> str:
        return f"http://127.0.0.1:{self.port}/{query}"

    def metrics(self) -> list[tuple[str, dict[str, str], float]]:
        """Name, labels and value of each series of /metrics."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        found: list[tuple[str, dict[str, str], float]] = []
        for line in lines:
            if not line.startswith("#"):
                series, _, value = line.rpartition(" ")
                found.append((*_parsed(series), float(value)))
        return found


def _parsed(series: str) -> tuple[str, dict[str, str]]:
    match = SELECTOR.fullmatch(series)
    assert match, series
    return match[1], dict(LABEL.findall(match[2] or ""))


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.stop()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as tab:
        tab.show(width=1200, height=900)
        yield tab


@pytest.mark.parametrize("query", ["", "?lang=zh"])
def test_it_is_drawn_in_less_than_a_second_and_asks_nobody_else(site: Site, tab: Browser, query: str) -> None:
    """The fastest of three, each made anew: what else the machine does can only add to it."""
    painted = "new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
    took: list[float] = []
    for _ in range(3):
        site.pass_time(5)
        tab.open(site.address(query))
        took.append(tab.run(painted))
        assert tab.complaints == []
        assert site.address(query) in tab.requests
        assert [one for one in tab.requests if not one.startswith((site.address(), "data:"))] == []
    assert min(took) < 1000, took


def test_values_are_those_of_metrics(site: Site, tab: Browser) -> None:
    tab.open(site.address("?lang=en"))
    shown = tab.run("[...document.querySelectorAll('data[title]')].map(one => [one.title, one.value, one.textContent])")
    metrics = site.metrics()
    assert len(shown) > 150
    for series, value, text in shown:
        name, labels = _parsed(series)
        same = [known for other, has, known in metrics if other == name and labels.items() <= has.items()]
        assert same == [float(value)], series
        assert _agrees(text, float(value)), f"{series} is {value}, not {text}"


def _agrees(text: str, value: float) -> bool:
    """Whether a written value, up to its last digit, is the one of the series."""
    if text in ("yes", "no"):
        return (text == "yes") == bool(value)
    match = re.search(r"(-?[\d,]+)(\.\d+)? ?(.*)", text)
    assert match, text
    if text.count(" ") > 1:  # minutes and seconds
        parts = re.findall(r"(\d+) (d|h|min|s)", text)
        seconds = sum(int(number) * {"d": 86400, "h": 3600, "min": 60, "s": 1}[unit] for number, unit in parts)
        return abs(seconds - value) <= 60
    scale = {"%": 100, "KiB": 2**-10, "MiB": 2**-20, "GiB": 2**-30, "TiB": 2**-40, "MHz": 1e-6, "kWh": 1 / 3.6e6}
    per = scale.get(match[3], 1 / 60 if match[3] == "min" else 1.0)
    last_digit = 10.0 ** -(len(match[2] or ".") - 1)
    return abs(float(match[1].replace(",", "") + (match[2] or "")) - value * per) <= last_digit


def test_new_values_come_by_themselves_and_nothing_else_moves(site: Site, tab: Browser) -> None:
    tab.open(site.address("?lang=en"))
    tab.run("document.querySelectorAll('.found')[2].open = true")
    tab.run("document.querySelectorAll('.found')[0].open = false")
    tab.run("document.querySelector('.gpus').marked = true")
    tab.run("scrollTo(0, 500)")
    before = tab.run("document.querySelector('time').textContent")
    site.pass_time(5)
    tab.wait(lambda: tab.run("document.querySelector('time').textContent") != before)
    assert tab.run("[...document.querySelectorAll('.found')].map(one => one.open)") == [False, False, True, False]
    assert tab.run("document.querySelector('.gpus').marked"), "the table was replaced"
    assert tab.run("scrollY") == 500
    assert tab.complaints == []


def test_findings_come_and_go_without_closing_others(site: Site, tab: Browser) -> None:
    tab.open(site.address("?lang=en"))
    tab.run("[...document.querySelectorAll('.found')].at(-1).open = true")
    titles = "[...document.querySelectorAll('.found[open] summary')].map(one => one.innerText)"
    assert [("hangs" in title, "idle" in title) for title in tab.run(titles)] == [(True, False), (False, True)]
    site.pass_time(240)  # the run that hung goes on
    tab.wait(lambda: not tab.run("document.getElementById('findings').innerText.includes('pretrain hangs')"))
    assert ["idle" in title for title in tab.run(titles)] == [True]


def test_a_server_that_does_not_answer_is_told_and_forgiven(site: Site, tab: Browser) -> None:
    tab.open(site.address())
    stale = "!document.getElementById('stale').hidden"
    routes = site.server.routes
    assert not tab.run(stale)
    site.server.routes = {}
    tab.wait(lambda: tab.run(stale))
    site.server.routes = routes
    tab.wait(lambda: not tab.run(stale))


@pytest.mark.parametrize(
    ("name", "query", "look", "height"),
    [
        ("monitor-light.png", "?lang=en", {"width": 1200}, 1240),
        ("monitor-dark.png", "?lang=en", {"width": 1200, "dark": True}, 1240),
        ("monitor-zh.png", "?lang=zh", {"width": 1200}, 1240),
        ("monitor-phone.png", "?lang=en", {"width": 390, "mobile": True, "dark": True}, 1500),
    ],
)
def test_pictures_of_the_documentation(
    site: Site, tab: Browser, name: str, query: str, look: dict[str, Any], height: int
) -> None:
    tab.show(height=900, **look)
    tab.open(site.address(query))
    assert tab.run("document.documentElement.scrollWidth") == look["width"], "it has to be scrolled sideways"
    keep_png(name, tab.picture(height=height))
