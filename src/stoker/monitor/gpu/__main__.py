"""The process that asks the driver: `python -m stoker.monitor.gpu FAST SLOW LIMIT`.

It writes one JSON object per line to its standard output and reads nothing; it ends when nobody reads any more.

    {"hello": {"driver", "nvml", "error", "gpus": [{"gpu", "uuid", "model", "pci"}]}}
                                                        all that were found; again when one more is found late
    {"no_driver": SENTENCE}                             and it ends
    {"gpu": UUID, "lost", "error", "seconds", "values"} a sample; a key that is missing keeps its last value
    {"xid": CODE, "gpu": UUID}                          an event
    {"alive": [UUID, ...]}                              once a second: GPUs whose present call takes too long
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pynvml

from stoker.monitor.gpu.calls import Asker
from stoker.monitor.gpu.discovery import Discovery, Found
from stoker.monitor.gpu.events import XidEvents
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.watch import GpuWatch


class Pipe:
    """Lines to the parent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a line; without a reader this process has no reason to live."""
        line = (json.dumps(message) + "\n").encode()
        with self._lock:
            try:
                while line:
                    line = line[os.write(1, line) :]
            except OSError:
                os._exit(0)


def main(intervals: Intervals) -> None:
    """Run for ever."""
    pipe = Pipe()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pipe.send({"no_driver": str(error)})
        return
    ask = Asker()
    about = {"driver": ask("nvmlSystemGetDriverVersion") or "", "nvml": ask("nvmlSystemGetNVMLVersion") or ""}
    discovery = Discovery(ask("nvmlDeviceGetCount") or 0)
    events = XidEvents(pipe.send)
    gpus: list[Mapping[str, str]] = []
    watches: list[GpuWatch] = []

    def watch(found: Sequence[Found]) -> None:
        gpus.extend(one.identity for one in found)
        pipe.send({"hello": {**about, "gpus": gpus, "error": ask.error or discovery.error}})
        for one in found:
            uuid = one.identity["uuid"]
            watches.append(GpuWatch(uuid, one.handle, intervals, pipe.send))
            watches[-1].start()
            events.add(one.handle, uuid)

    watch(discovery.found(within=intervals.limit))
    while True:
        time.sleep(1.0)
        if late := discovery.found(within=0.0):
            watch(late)
        now = time.monotonic()
        since = {one.uuid: one.busy_since for one in watches}
        blocked = [uuid for uuid, began in since.items() if began is not None and now - began > intervals.limit]
        pipe.send({"alive": blocked})


if __name__ == "__main__":
    main(Intervals(*map(float, sys.argv[1:])))
