"""Saving and resuming: nothing half written is ever taken for a checkpoint."""

from stoker.train.checkpoint.random_state import restore_random_state, take_random_state
from stoker.train.checkpoint.save import Saver
from stoker.train.checkpoint.state import Progress, first_broken, load_into, state_of
from stoker.train.checkpoint.store import CheckpointStore

__all__ = [
    "CheckpointStore",
    "Progress",
    "Saver",
    "first_broken",
    "load_into",
    "restore_random_state",
    "state_of",
    "take_random_state",
]
