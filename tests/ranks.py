"""Runs a function in several processes that meet over gloo, as the ranks of a run do."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_context = multiprocessing.get_context("forkserver")
# Import once what every rank needs, and fork ranks from there; the last two come with the first optimizer step.
_context.set_forkserver_preload(["stoker.train.engine", "torchmetrics", "torch._dynamo", "torch._inductor.config"])


def free_port() -> int:
    """A TCP port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Ranks:
    """Processes that run, and what they leave."""

    def __init__(self, function: Callable[..., Any], world_size: int, arguments: tuple[Any, ...]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        port = free_port()
        self.processes = [
            _context.Process(target=_on_rank, args=(function, arguments, rank, world_size, port, self.folder.name))
            for rank in range(world_size)
        ]
        for process in self.processes:
            process.start()

    @property
    def alive(self) -> bool:
        return any(process.is_alive() for process in self.processes)

    def kill(self, rank: int) -> None:
        """kill -9 one rank, and what is left of the others half a second later."""
        self.processes[rank].kill()
        self.processes[rank].join()
        for process in self.processes:
            process.join(0.5)
            process.kill()
            process.join()

    def results(self, timeout: float) -> list[Any]:
        """What the function returned or raised on each rank."""
        for process in self.processes:
            process.join(timeout)
        stuck = [process for process in self.processes if process.is_alive()]
        for process in stuck:
            process.kill()
            process.join()
        assert not stuck, f"{len(stuck)} of {len(self.processes)} ranks still ran after {timeout} s"
        files = [Path(self.folder.name) / str(rank) for rank in range(len(self.processes))]
        return [
            pickle.loads(file.read_bytes()) if file.exists() else RuntimeError(f"rank {rank} left no result")
            for rank, file in enumerate(files)
        ]


def start_ranks(function: Callable[..., Any], world_size: int, *arguments: Any) -> Ranks:
    """Call `function(*arguments)` on every rank, and do not wait."""
    return Ranks(function, world_size, arguments)


def run_ranks(function: Callable[..., Any], world_size: int, *arguments: Any, timeout: float = 120) -> list[Any]:
    """Call `function(*arguments)` on every rank; the results in rank order, exceptions among them."""
    return start_ranks(function, world_size, *arguments).results(timeout)


def _on_rank(
    function: Callable[..., Any], arguments: tuple[Any, ...], rank: int, world_size: int, port: int, folder: str
) -> None:
    import torch

    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(world_size), "LOCAL_RANK": str(rank)}
    os.environ |= {"LOCAL_WORLD_SIZE": str(world_size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
    try:
        result: Any = function(*arguments)
    except BaseException as error:
        traceback.print_exc()
        result = error
    file = Path(folder) / str(rank)
    aside = file.with_suffix(".partial")
    aside.write_bytes(pickle.dumps(result))
    aside.rename(file)
