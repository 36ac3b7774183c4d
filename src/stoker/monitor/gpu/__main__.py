"""The process that asks the driver: `python -m stoker.monitor.gpu FAST SLOW LIMIT`.

It writes one JSON object per line to its standard output and reads nothing; it ends when nobody reads any more.

    {"hello": {"driver": ..., "nvml": ..., "gpus": [{"gpu", "uuid", "model", "pci"}]}}
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
from collections.abc import Mapping
from typing import Any

import pynvml

from stoker.monitor.gpu.calls import Asker, GpuLostError
from stoker.monitor.gpu.intervals import Intervals
from stoker.monitor.gpu.watch import GpuWatch, Send

EVENT_WAIT_MS = 2000


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


def find_gpus(ask: Asker) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """Handles by UUID, and what identifies each GPU; one that is lost already cannot say who it is."""
    handles: dict[str, Any] = {}
    gpus: list[dict[str, str]] = []
    for index in range(ask("nvmlDeviceGetCount") or 0):
        try:
            handle = ask("nvmlDeviceGetHandleByIndex", index)
            uuid = None if handle is None else ask("nvmlDeviceGetUUID", handle)
            if uuid is None:
                continue
            pci = ask("nvmlDeviceGetPciInfo", handle)
            model = ask("nvmlDeviceGetName", handle) or ""
        except GpuLostError:
            continue
        handles[uuid] = handle
        address = "" if pci is None else pci.busId
        address = address.decode() if isinstance(address, bytes) else address
        gpus.append({"gpu": str(index), "uuid": uuid, "model": model, "pci": short_address(address)})
    return handles, gpus


def short_address(pci: str) -> str:
    """`00000000:19:00.0` as the kernel writes it: `0000:19:00.0`."""
    domain, _, rest = pci.partition(":")
    return f"{domain[-4:]}:{rest}".lower() if rest else pci.lower()


def watch_events(handles: Mapping[str, Any], send: Send) -> None:
    """Send each Xid for ever. Cards or drivers without events are passed over."""
    ask = Asker()
    uuids = {_address_of(handle): uuid for uuid, handle in handles.items()}
    events = ask("nvmlEventSetCreate")
    registered = [uuid for uuid, handle in handles.items() if events is not None and _register(ask, handle, events)]
    while registered:
        try:
            event = pynvml.nvmlEventSetWait_v2(events, EVENT_WAIT_MS)
        except pynvml.NVMLError as error:
            if error.value != pynvml.NVML_ERROR_TIMEOUT:  # type: ignore[attr-defined]  # set in __new__
                time.sleep(EVENT_WAIT_MS / 1000)  # such as a lost GPU: it must not become a busy loop
            continue
        if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
            send({"xid": int(event.eventData), "gpu": uuids.get(_address_of(event.device), "")})


def _address_of(handle: Any) -> Any:
    return pynvml.cast(handle, pynvml.c_void_p).value


def _register(ask: Asker, handle: Any, events: Any) -> bool:
    try:
        kinds = ask("nvmlDeviceGetSupportedEventTypes", handle)
        wanted = (kinds or 0) & pynvml.nvmlEventTypeXidCriticalError
        ask.error = ""
        if wanted:
            ask("nvmlDeviceRegisterEvents", handle, wanted, events)
    except GpuLostError:
        return False
    return bool(wanted) and not ask.error


def main(intervals: Intervals) -> None:
    """Run for ever."""
    pipe = Pipe()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        pipe.send({"no_driver": str(error)})
        return
    ask = Asker()
    handles, gpus = find_gpus(ask)
    driver, library = ask("nvmlSystemGetDriverVersion"), ask("nvmlSystemGetNVMLVersion")
    pipe.send({"hello": {"driver": driver or "", "nvml": library or "", "gpus": gpus, "error": ask.error}})
    watches = [GpuWatch(uuid, handle, intervals, pipe.send) for uuid, handle in handles.items()]
    for watch in watches:
        watch.start()
    threading.Thread(target=watch_events, args=(handles, pipe.send), daemon=True).start()
    while True:
        time.sleep(1.0)
        now = time.monotonic()
        since = {watch.uuid: watch.busy_since for watch in watches}
        late = [uuid for uuid, began in since.items() if began is not None and now - began > intervals.limit]
        pipe.send({"alive": late})


if __name__ == "__main__":
    main(Intervals(*map(float, sys.argv[1:])))
