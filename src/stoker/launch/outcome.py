"""How a launched run failed: the first failure of the first rank that failed, once."""

from __future__ import annotations

import json
import signal
from collections.abc import Sequence
from pathlib import Path

from stoker.errors import RunError, UserError
from stoker.launch.local import RankFailure

_PLAIN = {"UserError": UserError, "RunError": RunError}


def failure_of(file: Path, failures: Sequence[RankFailure]) -> UserError:
    """The error to show.

    A rank that was killed cannot say so itself, and the others then fail because it is gone: it comes first.

    Args:
        file: `failure.json`, written by the first rank that raised.
        failures: What the launcher saw, first one first.
    """
    killed = [failure for failure in failures if failure.exit_code < 0 and failure.exit_code != -signal.SIGTERM]
    if killed:
        return _killed(killed[0])
    try:
        told = json.loads(file.read_text())
    except (OSError, ValueError):
        codes = ", ".join(f"rank {failure.rank} with {failure.exit_code}" for failure in failures)
        return RunError(f"ranks ended without a word ({codes}); look into {file.parent / 'logs'}")
    if told["kind"] in _PLAIN:
        return _PLAIN[told["kind"]](told["message"])
    place = f"rank {told['rank']}" + (f", after step {told['step']}" if told.get("step") is not None else "")
    return RunError(f"{place}: {told['kind']}: {told['message']}\n{told['traceback'].rstrip()}")


def _killed(failure: RankFailure) -> RunError:
    name = signal.Signals(-failure.exit_code).name
    hints = {
        "SIGKILL": "the kernel does this when memory runs out (see `dmesg`), as do people and schedulers",
        "SIGSEGV": "a compiled library crashed; set PYTHONFAULTHANDLER=1 to see where",
        "SIGBUS": "often /dev/shm is full: give the container a larger --shm-size",
    }
    hint = hints.get(name, "something outside of the run ended it")
    return RunError(f"rank {failure.rank} was ended by {name}: {hint}. The run continues from its last checkpoint.")
