"""What is new is rendered before anyone asks for it, and what is asked for is what is known then."""

from __future__ import annotations

import threading
from dataclasses import replace

from stoker.monitor.model import MachineSample
from stoker.monitor.web.metrics import TOGETHER, MetricsRoute
from stoker.monitor.web.routes import Request
from tests.monitor.samples import gpu, machine
from tests.monitor.waiting import until

METRICS = Request("/metrics")


class Played:
    """A machine whose sample a test sets; counts how often it is looked at."""

    def __init__(self, sample: MachineSample) -> None:
        self.now = sample
        self.looks = 0

    def sample(self) -> MachineSample:
        self.looks += 1
        return self.now


def test_an_answer_is_always_of_now() -> None:
    played = Played(machine(gpu(0)))
    route = MetricsRoute(played)
    for watts in (601.5, 300.5, 601.5):
        played.now = machine(gpu(0, power_watts=watts))
        assert f"}} {watts}\n".encode() in route(METRICS).body
    played.now = machine()
    assert b"stoker_gpu_" not in route(METRICS).body


def test_an_answer_tells_how_long_the_one_before_took() -> None:
    route = MetricsRoute(Played(machine(gpu(0))))
    first, second = (float(route(METRICS).body.split()[-1]) for _ in range(2))
    assert first == 0.0
    assert 0 < second < 5


def test_news_that_come_together_are_rendered_once_and_without_a_scrape() -> None:
    played, news = Played(machine(gpu(0))), threading.Event()
    route = MetricsRoute(played)
    route.keep_ready(news)
    before = played.looks
    for _ in range(8):  # the GPUs of a machine, one after the other
        news.set()
    until(lambda: played.looks > before)
    threading.Event().wait(5 * TOGETHER)
    assert played.looks == before + 1
    played.now = replace(played.now, gpus=(gpu(0, power_watts=1.5),))
    news.set()
    until(lambda: played.looks == before + 2)
    assert not news.is_set()
