"""What a run tells while it goes: files, TensorBoard, and the terminal. Rank 0 only."""

from stoker.train.observe.base import Observer, Observers, StepRecord
from stoker.train.observe.make import make_observers

__all__ = ["Observer", "Observers", "StepRecord", "make_observers"]
