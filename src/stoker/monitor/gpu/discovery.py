"""Which GPUs there are. One that does not answer keeps nobody from finding the others."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stoker.monitor.gpu.calls import Asker, GpuLostError


@dataclass(frozen=True)
class Found:
    """A GPU.

    Attributes:
        handle: The driver's handle.
        identity: The fields of `Gpu` that say which it is: `gpu`, `uuid`, `model` and `pci`.
    """

    handle: Any
    identity: Mapping[str, str]


class Discovery:
    """Asks each GPU who it is, in a thread of its own.

    Args:
        count: How many the driver counts.

    Attributes:
        error: What the driver last said instead of an answer; empty if nothing.
    """

    def __init__(self, count: int) -> None:
        self.error = ""
        self._awaited = count
        self._answers: queue.SimpleQueue[Found | None] = queue.SimpleQueue()
        for index in range(count):
            threading.Thread(target=self._look, args=(index,), name=f"find gpu {index}", daemon=True).start()

    def found(self, *, within: float) -> list[Found]:
        """Those that have answered since the last time, in the order of their indices.

        Args:
            within: Seconds to wait at most while some have not answered.
        """
        deadline = time.monotonic() + within
        found: list[Found] = []
        while self._awaited:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                break
            self._awaited -= 1
            if answer is not None:
                found.append(answer)
        return sorted(found, key=lambda one: int(one.identity["gpu"]))

    def _look(self, index: int) -> None:
        ask = Asker()
        try:
            answer = _find(ask, index)
        except GpuLostError:
            answer = None  # lost already, it cannot say who it is
        self.error = ask.error or self.error
        self._answers.put(answer)


def _find(ask: Asker, index: int) -> Found | None:
    handle = ask("nvmlDeviceGetHandleByIndex", index)
    uuid = None if handle is None else ask("nvmlDeviceGetUUID", handle)
    if uuid is None:
        return None
    pci = ask("nvmlDeviceGetPciInfo", handle)
    address = "" if pci is None else pci.busId
    address = address.decode() if isinstance(address, bytes) else address
    model = ask("nvmlDeviceGetName", handle) or ""
    return Found(handle, {"gpu": str(index), "uuid": uuid, "model": model, "pci": short_address(address)})


def short_address(pci: str) -> str:
    """An address of NVML as the kernel writes it.

    >>> short_address("00000000:19:00.0")
    '0000:19:00.0'
    """
    domain, _, rest = pci.partition(":")
    return f"{domain[-4:]}:{rest}".lower() if rest else pci.lower()
