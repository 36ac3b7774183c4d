"""Waiting for what other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def until(look: Callable[[], Value], seconds: float = 20.0) -> Value:
    """The first value that counts as true.

    Raises:
        AssertionError: It did not come in time.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds} s: {look}"
        time.sleep(0.02)
    return found
