"""Rules that combine several facts of a log, where one pattern is not enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stoker.doctor.reasoning import Facts, Verdict
from stoker.doctor.rules.affinity import pinned_to_one_core
from stoker.doctor.rules.collectives import judge_collectives
from stoker.doctor.rules.exceptions import judge_exceptions
from stoker.doctor.rules.exporter import judge_exporter
from stoker.doctor.rules.hardware import judge_ecc_column, judge_nvlinks, judge_temperatures
from stoker.doctor.rules.interfaces import judge_interfaces
from stoker.doctor.rules.loading import judge_loading
from stoker.doctor.rules.memory import judge_memory
from stoker.doctor.rules.processes import judge_processes
from stoker.doctor.rules.tensorflow import judge_tensorflow
from stoker.doctor.rules.topology import judge_topology
from stoker.doctor.rules.versions import judge_driver_versions, judge_torchvision
from stoker.doctor.rules.xid import judge_xids

RULES: tuple[Callable[[Facts], Iterable[Verdict]], ...] = (
    judge_driver_versions,
    judge_torchvision,
    judge_memory,
    judge_processes,
    judge_collectives,
    judge_topology,
    judge_interfaces,
    judge_nvlinks,
    judge_temperatures,
    judge_ecc_column,
    judge_xids,
    judge_tensorflow,
    judge_loading,
    pinned_to_one_core,
    judge_exporter,
    judge_exceptions,
)
