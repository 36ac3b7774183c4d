"""stoker: from bare GPU server to trained PyTorch model.

Importing this package is light; torch is imported when training is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from stoker._version import __version__

if TYPE_CHECKING:
    from stoker import train
    from stoker.train import Evaluation, Loss, RunSpec, Task, make_task

__all__ = ["Evaluation", "Loss", "RunSpec", "Task", "__version__", "make_task", "train"]


def __getattr__(name: str) -> Any:
    if name == "train":
        return importlib.import_module("stoker.train")
    if name in __all__:
        return getattr(importlib.import_module("stoker.train"), name)
    raise AttributeError(f"module 'stoker' has no attribute {name!r}")
