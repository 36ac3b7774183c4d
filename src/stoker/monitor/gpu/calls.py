"""Driver calls whose refusals are told apart: the value is not there, the GPU is lost, or something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

_NOT_THERE = frozenset(
    {
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,  # the driver is older than the binding
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,  # or knows another version of the structure
        pynvml.NVML_ERROR_DEPRECATED,
        pynvml.NVML_ERROR_INVALID_ARGUMENT,
        pynvml.NVML_ERROR_NOT_FOUND,
        pynvml.NVML_ERROR_NO_DATA,
        pynvml.NVML_ERROR_NOT_READY,
    }
)
_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND, pynvml.NVML_ERROR_RESET_REQUIRED})


class GpuLostError(Exception):
    """The driver does not reach the GPU any more."""


class Asker:
    """Asks, and keeps what went wrong.

    Attributes:
        error: What the driver last said instead of a value, though the card should have it; empty if nothing.
    """

    def __init__(self) -> None:
        self.error = ""

    def __call__(self, names: str, *args: Any) -> Any:
        """The answer of the first function of `names` that binding, driver and card all have; None if none does.

        Args:
            names: Functions of pynvml, divided by `|`: the present one first, then those that it replaced.
            args: What they are called with.

        Raises:
            GpuLostError: The GPU is lost.
        """
        for name in names.split("|"):
            function: Callable[..., Any] | None = getattr(pynvml, name, None)
            if function is None:
                continue
            try:
                return function(*args)
            except pynvml.NVMLError as error:
                self._refused(name, error)
        return None

    def _refused(self, name: str, error: Any) -> None:
        code: int = error.value
        if code in _LOST:
            raise GpuLostError(str(error)) from error
        if code not in _NOT_THERE:
            self.error = f"{name}: {error}"
