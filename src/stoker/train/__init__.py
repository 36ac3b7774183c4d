"""Training. `stoker.train(task, spec)` runs a task; the names below are the public face.

torch is imported with the first name that needs it, so that reading a spec stays light.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoker.train.engine import RunResult, run
    from stoker.train.spec import RunSpec, load_spec, parse_spec
    from stoker.train.task import Evaluation, Loss, Task, make_task

_HOMES = {
    "Evaluation": "task",
    "Loss": "task",
    "RunResult": "engine",
    "RunSpec": "spec",
    "Task": "task",
    "load_spec": "spec",
    "make_task": "task",
    "parse_spec": "spec",
    "run": "engine",
}

__all__ = [
    "Evaluation",
    "Loss",
    "RunResult",
    "RunSpec",
    "Task",
    "load_spec",
    "make_task",
    "parse_spec",
    "run",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stoker.train' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stoker.train.{_HOMES[name]}"), name)


class _CallableModule(types.ModuleType):
    """This room is a package and, as `stoker.train(task, spec)`, what people come for."""

    def __call__(self, task: Task, spec: RunSpec | dict[str, Any], *overrides: str) -> RunResult:
        """Train `task`; see `stoker.train.engine.run`. A mapping is checked like a run file."""
        from stoker.train.engine import run
        from stoker.train.spec import parse_spec

        if isinstance(spec, dict):
            given = {"task": f"{type(task).__module__}:{type(task).__qualname__}", **spec}  # for the record
            return run(task, parse_spec(given, overrides=overrides))
        return run(task, spec)


sys.modules[__name__].__class__ = _CallableModule
