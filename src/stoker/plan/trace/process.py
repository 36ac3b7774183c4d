"""Processes that trace: started once, each takes one request after the other and forks a child for it.

A trace changes its process beyond repair, so each needs a fresh one; but importing torch takes longer than many
a trace. A server imports what is needed and stays clean; its children trace.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path


class EndedError(Exception):
    """The process ended before it replied; the message says how, `said` is the end of what it wrote."""

    def __init__(self, message: str, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class Server:
    """One process that forks a child for each request."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [sys.executable, "-m", "stoker.plan.trace.worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )

    def run(self, request: Path, reply: Path, errors: Path, timeout: float) -> None:
        """Have a request answered: all three are files.

        Raises:
            TimeoutError: If it takes longer than `timeout` seconds.
            EndedError: If there is no reply.
        """
        line = {"request": str(request), "reply": str(reply), "errors": str(errors), "path": sys.path}
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        assert pipe_in is not None
        assert pipe_out is not None
        with contextlib.suppress(BrokenPipeError):
            pipe_in.write(json.dumps(line | {"folder": str(Path.cwd())}).encode() + b"\n")
            pipe_in.flush()
        if not select.select([pipe_out], [], [], timeout)[0]:
            raise TimeoutError(f"tracing took longer than {timeout:.0f} s and was given up")
        status = pipe_out.readline().decode().strip()
        if not reply.exists():
            said = errors.read_text(errors="replace").strip() if errors.exists() else ""
            last = said.splitlines()[-1] if said else f"exit status {status or self._process.wait()}"
            raise EndedError(last, said[-2000:])

    @property
    def alive(self) -> bool:
        """Whether it can take another request."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it, and the child that it may still run."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.terminate()
        self._process.wait()


_idle: queue.SimpleQueue[Server] = queue.SimpleQueue()
_slots = threading.BoundedSemaphore(max(2, os.cpu_count() or 2))


@contextlib.contextmanager
def server() -> Generator[Server]:
    """A server for this block alone; it is kept for others unless the block fails in it."""
    with _slots:
        try:
            own = _idle.get_nowait()
        except queue.Empty:
            own = Server()
        clean = False
        try:
            yield own
            clean = True
        except EndedError:
            clean = True  # only its child has ended
            raise
        finally:
            if clean and own.alive:
                _idle.put(own)
            else:
                own.stop()


@atexit.register
def stop_all() -> None:
    """End the servers that are idle; those at work end when their request does."""
    with contextlib.suppress(queue.Empty):
        while True:
            _idle.get_nowait().stop()
