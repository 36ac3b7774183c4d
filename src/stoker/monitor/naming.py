"""Which series of `/metrics` a value of a sample is, as one asks Prometheus for it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from stoker.monitor.series import all_series


@cache
def names_by_field() -> Mapping[str, str]:
    """The name of each series, by the field of the sample that it is made from."""
    return {series.field: series.name for series in all_series() if series.field}


def selector(field: str, **labels: str) -> str:
    """The series with the labels that tell it from others; empty where the field has none.

    >>> selector("gpus.power_watts", gpu="3")
    'stoker_gpu_power_watts{gpu="3"}'
    """
    name = names_by_field().get(field, "")
    if not name or not labels:
        return name
    pairs = ",".join(f'{label}="{escaped(value)}"' for label, value in labels.items())
    return f"{name}{{{pairs}}}"


def escaped(value: str) -> str:
    r"""A label's value as Prometheus's text format has it: with \\, \" and \n."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
