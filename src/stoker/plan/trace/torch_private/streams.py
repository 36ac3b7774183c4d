"""Streams and events: plain objects that tell a listener about every record and wait."""

# This package exists to touch what is private, so that no other has to.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportUnknownLambdaType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import torch


class _Timeline:
    """What the fake streams share: the current one, and who listens to records and waits."""

    def __init__(self) -> None:
        self.next_event = 1
        self.listener: Callable[[str, int, int], None] | None = None
        self.default = FakeStream.__new__(FakeStream)
        self.default.id = 0
        self.current = self.default
        self.streams = 1

    def tell(self, kind: str, stream: int, event: int) -> None:
        if self.listener is not None:
            self.listener(kind, stream, event)


class FakeEvent:
    """Stands in for `torch.cuda.Event`."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.id = 0

    def record(self, stream: FakeStream | None = None) -> FakeEvent:
        """Mark this point of the stream."""
        stream = stream or timeline.current
        self.id = timeline.next_event
        timeline.next_event += 1
        timeline.tell("record", stream.id, self.id)
        return self

    def wait(self, stream: FakeStream | None = None) -> None:
        """Hold the stream until this event."""
        (stream or timeline.current).wait_event(self)

    def query(self) -> bool:
        """Everything is always done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def elapsed_time(self, _other: FakeEvent) -> float:
        """No time passes here."""
        return 0.0


class FakeStream:
    """Stands in for `torch.cuda.Stream`; usable as a context manager like the real one."""

    id: int
    cuda_stream = 0
    priority = 0
    device_index = 0

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        self.id = timeline.streams
        timeline.streams += 1
        self._previous: list[FakeStream] = []

    @property
    def stream_id(self) -> int:
        """As `id`."""
        return self.id

    @property
    def device(self) -> torch.device:
        """The one fake device."""
        return torch.device("cuda", 0)

    def record_event(self, event: FakeEvent | None = None) -> FakeEvent:
        """Mark this point of the stream."""
        return (event or FakeEvent()).record(self)

    def wait_event(self, event: FakeEvent) -> None:
        """Hold the stream until the event; one that was never recorded holds nothing."""
        if event.id:
            timeline.tell("wait", self.id, event.id)

    def wait_stream(self, stream: FakeStream) -> None:
        """Hold the stream until the other has come this far."""
        self.wait_event(stream.record_event())

    def query(self) -> bool:
        """Everything is always done."""
        return True

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def is_capturing(self) -> bool:
        """No graph is ever captured."""
        return False

    def __enter__(self) -> FakeStream:
        self._previous.append(timeline.current)
        timeline.current = self
        return self

    def __exit__(self, *_exc: object) -> None:
        timeline.current = self._previous.pop()

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return self is other


timeline = _Timeline()


@contextlib.contextmanager
def use_stream(stream: FakeStream | None) -> Generator[None]:
    """Make a stream current in this block, as `torch.cuda.stream` does."""
    previous = timeline.current
    if stream is not None:
        timeline.current = stream
    try:
        yield
    finally:
        timeline.current = previous


def reset_streams() -> None:
    """Number streams and events from the start again, for another trace in the same process."""
    timeline.streams = timeline.next_event = 1
    timeline.current = timeline.default


def current_stream() -> int:
    """Number of the stream that is current now; 0 is the default stream."""
    return timeline.current.id


def current_fake_stream() -> FakeStream:
    """The stream that is current now."""
    return timeline.current


def on_stream_event(listener: Callable[[str, int, int], None] | None) -> None:
    """Call `listener("record" | "wait", stream, event)` whenever a fake event is recorded or waited for."""
    timeline.listener = listener
