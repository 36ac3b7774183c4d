"""What a run tells while it goes: files, TensorBoard, and the terminal. Rank 0 only."""

from stoker.train.observe.base import Observer, Observers, StepRecord
from stoker.train.observe.make import make_observers
from stoker.train.observe.status import RunFacts

__all__ = ["Observer", "Observers", "RunFacts", "StepRecord", "make_observers"]
