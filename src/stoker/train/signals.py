"""Being told to stop. A handler only raises a flag; the ranks act on it together at the end of a step."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)


class StopFlag:
    """Whether this process was told to stop.

    A second interrupt from the keyboard ends the process at once.

    Attributes:
        reason: What told it, for the log; empty while nothing did.
    """

    def __init__(self, *, watch_parent: bool = False) -> None:
        self.reason = ""
        self._parent = os.getppid() if watch_parent else None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopFlag:
        if threading.current_thread() is not threading.main_thread():
            return self  # Python lets only the main thread handle signals
        for number in STOP_SIGNALS:
            self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        if number == signal.SIGINT and self.reason:
            raise KeyboardInterrupt
        self.reason = signal.Signals(number).name

    @property
    def raised(self) -> bool:
        """Whether to stop at the next step boundary; also when the launcher that started us has died."""
        if self._parent is not None and os.getppid() != self._parent:
            self.reason = self.reason or "the launcher is gone"
        return bool(self.reason)
