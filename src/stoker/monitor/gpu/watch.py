"""One thread per GPU asks the driver about it, so that a call that hangs holds up this GPU alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from stoker.monitor.gpu.activity import Activity, MigReader
from stoker.monitor.gpu.calls import Asker, GpuLostError
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.readings import CLOCK_EVENTS, Values, read_fast, read_processes, read_slow

Send = Callable[[Mapping[str, Any]], None]


class ClockEventTime:
    """For how long each reason has held the clocks down: the time between two samples that both show it."""

    def __init__(self, longest_gap: float) -> None:
        self._longest_gap = longest_gap
        self._total = dict.fromkeys(CLOCK_EVENTS, 0.0)
        self._before: Mapping[str, int] = {}
        self._time = 0.0

    def add(self, active: Mapping[str, int], now: float) -> dict[str, float]:
        """Count a sample at `now` (monotonic seconds); a gap in the samples is not counted."""
        elapsed = now - self._time
        if elapsed <= self._longest_gap:
            for reason in active:
                if active[reason] and self._before.get(reason):
                    self._total[reason] += elapsed
        self._before, self._time = active, now
        return dict(self._total) if active else {}


class GpuWatch(threading.Thread):
    """Samples one GPU for ever.

    Attributes:
        uuid: Of the GPU.
        busy_since: Monotonic time at which the sample under way began; None between samples.
    """

    def __init__(self, uuid: str, handle: Any, intervals: Intervals, send: Send) -> None:
        super().__init__(name=f"gpu {uuid}", daemon=True)
        self.uuid = uuid
        self.busy_since: float | None = None
        self._intervals, self._send = intervals, send
        self._ask = Asker()
        self._clock_time = ClockEventTime(longest_gap=3 * intervals.fast)
        self._use(handle)

    def run(self) -> None:
        """Sample, send, sleep."""
        next_slow = 0.0
        while True:
            began = time.monotonic()
            slow = began >= next_slow
            if slow:
                next_slow = began + self._intervals.slow
            self.busy_since = began
            message = self._message(slow=slow)
            self.busy_since = None
            ended = time.monotonic()
            self._send(message | {"gpu": self.uuid, "seconds": round(ended - began, 6)})
            time.sleep(max(0.05, began + self._intervals.fast - ended))

    def _use(self, handle: Any) -> None:
        self._handle = handle
        self._activity: Activity | None = None
        self._mig: MigReader | None = None

    def _message(self, *, slow: bool) -> dict[str, Any]:
        """A sample; a GPU that is lost is looked for anew, since a reset may bring it back."""
        self._ask.error = ""
        try:
            values = self._sample(slow=slow)
        except GpuLostError as error:
            self._find_again()
            return {"lost": True, "error": str(error), "values": {}}
        except Exception as error:  # a driver that answers as none did before must not end the watch without a word
            return {"lost": False, "error": f"{type(error).__name__}: {error}", "values": None}
        return {"lost": False, "error": self._ask.error, "values": values}

    def _sample(self, *, slow: bool) -> Values:
        ask, handle = self._ask, self._handle
        if self._activity is None:
            self._activity, self._mig = Activity(ask, handle), MigReader(ask, handle)
        values = read_fast(ask, handle) | self._activity.read()
        values["clock_event_seconds"] = self._clock_time.add(values["clock_event_active"], time.monotonic())
        if slow:
            assert self._mig is not None
            counted = values["pcie_transmit_bytes"] is not None
            values |= read_slow(ask, handle, pcie_counted=counted) | self._mig.read() | read_processes(ask, handle)
        return values

    def _find_again(self) -> None:
        try:
            handle = self._ask("nvmlDeviceGetHandleByUUID", self.uuid)
        except GpuLostError:
            return
        if handle is not None:
            self._use(handle)
