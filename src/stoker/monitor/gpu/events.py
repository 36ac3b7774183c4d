"""Xid errors, which the driver reports by itself."""

from __future__ import annotations

import threading
import time
from typing import Any

import pynvml

from stoker.monitor.gpu.calls import Asker, GpuLostError
from stoker.monitor.gpu.watch import Send

WAIT_MS = 2000


class XidEvents:
    """Sends each Xid for ever. Cards or drivers without events are passed over.

    Args:
        send: Takes the messages.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._events = Asker()("nvmlEventSetCreate")
        self._uuids: dict[Any, str] = {}
        self._lock = threading.Lock()
        self._waiting = False

    def add(self, handle: Any, uuid: str) -> None:
        """Wait for those of one more GPU. A thread of its own tells the driver: it may hang like every other call."""
        if self._events is not None:
            threading.Thread(target=self._register, args=(handle, uuid), name=f"events {uuid}", daemon=True).start()

    def _register(self, handle: Any, uuid: str) -> None:
        ask = Asker()
        try:
            kinds = ask("nvmlDeviceGetSupportedEventTypes", handle) or 0
            ask.error = ""
            wanted = kinds & pynvml.nvmlEventTypeXidCriticalError
            if not wanted:
                return
            self._uuids[_address_of(handle)] = uuid
            ask("nvmlDeviceRegisterEvents", handle, wanted, self._events)
        except GpuLostError:
            return
        with self._lock:
            if not ask.error and not self._waiting:  # there is nothing to wait for before
                self._waiting = True
                threading.Thread(target=self._wait, name="xid events", daemon=True).start()

    def _wait(self) -> None:
        while True:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, WAIT_MS)
            except pynvml.NVMLError as error:
                if error.value != pynvml.NVML_ERROR_TIMEOUT:  # type: ignore[attr-defined]  # set in __new__
                    time.sleep(WAIT_MS / 1000)  # such as a lost GPU: it must not become a busy loop
                continue
            if event.eventType == pynvml.nvmlEventTypeXidCriticalError:
                self._send({"xid": int(event.eventData), "gpu": self._uuids.get(_address_of(event.device), "")})


def _address_of(handle: Any) -> Any:
    return pynvml.cast(handle, pynvml.c_void_p).value
