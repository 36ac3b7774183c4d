"""Traces many workloads in few processes: starting one costs more than a small trace."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from queue import SimpleQueue
from typing import IO, Any

from stoker.plan.hardware import Gpu
from stoker.plan.layout import Layout
from stoker.plan.trace.run import Failure, Reply, Request, Source, stages_to_trace


class TracePool:
    """Processes that wait for something to trace, all for GPUs of one kind.

    Args:
        gpu: The kind, whose attention kernels are taken.
        workers: Processes; each is started with the first trace that needs it.

    >>> with TracePool(gpu) as pool:                     # doctest: +SKIP
    ...     replies = pool.trace([(source, layout)])
    """

    def __init__(self, gpu: Gpu, workers: int = 2) -> None:
        self.gpu = gpu
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._workers = [_Worker() for _ in range(max(1, workers))]
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max_workers=len(self._workers))

    def __enter__(self) -> TracePool:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def trace(self, jobs: Sequence[tuple[Source, Layout]], done: Callable[[int], None] = lambda _: None) -> list[Reply]:
        """Trace every job, in as many processes as there are.

        Args:
            jobs: What to trace; of a pipeline the stages of `stages_to_trace`.
            done: Called with the number of a job when it is done, from another thread.
        """

        def one(number: int) -> Reply:
            source, layout = jobs[number]
            reply = self._ask(source, layout)
            done(number)
            return reply

        return list(self._threads.map(one, range(len(jobs))))

    def _ask(self, source: Source, layout: Layout) -> Reply:
        gpu = self.gpu
        request = Request(
            source, layout, "cuda", gpu.name, gpu.capability, gpu.memory_bytes, gpu.sms or 100, stages_to_trace(layout)
        )
        worker = self._idle.get()
        try:
            return worker.ask(request)
        finally:
            self._idle.put(worker)


class _Worker:
    """One process, started when it is first asked; a new one takes the place of one that ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: Request) -> Reply:
        if self._process is None or self._process.poll() is not None:
            self._process = _start()
        sent, received = self._process.stdin, self._process.stdout
        assert sent is not None
        assert received is not None
        try:
            write_message(sent, request)
            reply: Reply = read_message(received)
        except (OSError, EOFError):
            return Reply([], Failure("torch", "the tracing process ended early", ""))
        return reply

    def close(self) -> None:
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # the worker ends when there is nothing more to read
        self._process.stdout.close()
        self._process.terminate()
        self._process.wait()


def _start() -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", "stoker.plan.trace.pool"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def write_message(stream: IO[bytes], value: Any) -> None:
    """A pickled value with its length before it."""
    data = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(len(data).to_bytes(8, "little"))
    stream.write(data)
    stream.flush()


def read_message(stream: IO[bytes]) -> Any:
    """What `write_message` wrote.

    Raises:
        EOFError: Nothing more comes.
    """
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    return pickle.loads(stream.read(int.from_bytes(head, "little")))


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Answer requests until there are no more; the first decides the GPU that is pretended."""
    import gc

    from stoker.plan.trace.worker import answer, prepare

    problem: Failure | None = None
    prepared = False
    while True:
        try:
            request: Request = read_message(requests)
        except EOFError:
            return
        if not prepared:
            problem = prepare(replace(request, layout=Layout(replicate=8)))
            prepared = True
        write_message(replies, Reply([], problem) if problem is not None else answer(request))
        gc.collect()


if __name__ == "__main__":
    output = sys.stdout.buffer
    sys.stdout = sys.stderr  # what a model prints must not get between the replies
    serve(sys.stdin.buffer, output)
