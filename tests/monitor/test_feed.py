from __future__ import annotations

import threading

from stoker.monitor.feed import Feed
from stoker.monitor.model import MachineSample
from stoker.monitor.watch import Watch
from tests.monitor.samples import gpu, machine


def test_the_first_sample_is_there_at_once_and_others_follow_until_it_stops() -> None:
    taken: list[MachineSample] = []
    third = threading.Event()

    def sample() -> MachineSample:
        taken.append(machine(gpu(power_watts=len(taken))))
        if len(taken) == 3:
            third.set()
        return taken[-1]

    watch = Watch()
    feed = Feed(sample, watch, every=0.01)
    feed.start()
    assert watch.moment is not None
    assert third.wait(5)
    feed.stop()
    count = len(taken)
    assert not third.wait(0) or len(taken) == count
    assert watch.moment.sample == taken[-1]
