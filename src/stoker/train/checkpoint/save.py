"""Writing checkpoints in the background."""

from __future__ import annotations

import errno
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from stoker.errors import RunError
from stoker.train.checkpoint.state import Progress
from stoker.train.checkpoint.store import CheckpointStore, FileRecord, write_durably
from stoker.train.world import World


class Saver:
    """Saves states, one at a time.

    The state is copied to host memory in the caller's thread; a thread of this class writes it, checks it and
    commits it. A failure is kept until the caller asks, so that all ranks can act on it at the same step.

    Args:
        store: Where to.
        world: The ranks, all of which must call in the same order.
        keep: Newest checkpoints to keep.
        asynchronous: Whether `save` returns before the files are written.
    """

    def __init__(self, store: CheckpointStore, world: World, *, keep: int, asynchronous: bool) -> None:
        self._store, self._world, self._keep, self._asynchronous = store, world, keep, asynchronous
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="stoker-save")
        self._pending: Future[Path] | None = None
        self._step = 0

    @property
    def failed(self) -> bool:
        """Whether a save that was started has failed by now."""
        return self._pending is not None and self._pending.done() and self._pending.exception() is not None

    def save(self, state: dict[str, Any], progress: Progress) -> None:
        """Save a state; waits for the previous one first.

        Raises:
            RunError: This or the previous save failed; older checkpoints are untouched.
        """
        self.wait()
        self._step = progress.position.step
        folder = self._prepare()
        stager = DefaultStager(StagingOptions(False, False, False, False))
        try:
            upload = dcp.async_save(
                state,
                storage_writer=dcp.FileSystemWriter(folder / "state"),
                async_stager=stager,
                process_group=self._world.saving,
                no_dist=self._world.size == 1,
            )
        finally:
            stager.close()
        assert isinstance(upload, Future)
        self._pending = self._thread.submit(self._finish, upload, folder, progress)
        if not self._asynchronous:
            self.wait()

    def wait(self) -> None:
        """Wait until nothing is being written.

        Raises:
            RunError: The save that was under way failed.
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        try:
            pending.result()
        except (Exception, dcp.CheckpointException) as error:  # the latter is no Exception but a BaseException
            raise self._explained(error) from error

    def close(self) -> None:
        """End the thread."""
        self._thread.shutdown(wait=True)

    def _prepare(self) -> Path:
        """An empty folder that every rank sees, or the same error on every rank."""
        problem: OSError | None = None
        if self._world.is_first:
            try:
                self._store.start(self._step)
            except OSError as error:
                problem = error
        problem = self._world.first_says(problem)
        if problem is not None:
            raise self._explained(problem)
        return self._store.partial(self._step)

    def _finish(self, upload: Future[Any], folder: Path, progress: Progress) -> Path:
        """In the background: sum up this rank's files; rank 0 commits; all ranks end alike."""
        upload.result()
        answer: list[FileRecord] | Exception
        try:
            answer = self._own_files(folder, progress)
        except OSError as error:
            answer = error
        answers = self._gather(answer)
        failures: list[Exception] = [one for one in answers if isinstance(one, Exception)]
        if not failures and self._world.is_first:
            try:
                records = [record for part in answers if not isinstance(part, Exception) for record in part]
                self._store.commit(progress.position.step, records)
                self._store.keep_newest(self._keep)
            except OSError as error:
                failures = [error]
        failures = self._first_says(failures)
        if failures:
            raise failures[0]
        return self._store.final(progress.position.step)

    def _own_files(self, folder: Path, progress: Progress) -> list[FileRecord]:
        files = sorted((folder / "state").glob(f"__{self._world.rank}_*"))
        if self._world.is_first:
            write_durably(folder / "progress.json", progress.to_json())
            files += [folder / "state" / ".metadata", folder / "progress.json"]
        return [FileRecord.of(file, folder) for file in files]

    def _gather(self, answer: list[FileRecord] | Exception) -> list[list[FileRecord] | Exception]:
        if self._world.size == 1:
            return [answer]
        answers: list[Any] = [None] * self._world.size
        dist.all_gather_object(answers, answer, group=self._world.saving)
        return answers

    def _first_says(self, failures: list[Exception]) -> list[Exception]:
        if self._world.size == 1:
            return failures
        told: list[Any] = [failures]
        dist.broadcast_object_list(told, src=0, group=self._world.saving)
        return told[0]

    def _explained(self, error: BaseException) -> RunError:
        """A failed save in a sentence, with what is still there."""
        shutil.rmtree(self._store.partial(self._step), ignore_errors=True)
        safe = next(iter(self._store.complete()), None)
        left = f"the run can continue from {safe}" if safe else "no earlier checkpoint exists"
        what = (
            f"the disk is full while saving step {self._step} to {self._store.root}: free some space"
            if _disk_is_full(error, self._store.root)
            else f"saving step {self._step} to {self._store.root} failed: {_first_line(error)}"
        )
        return RunError(f"{what}; {left}.")


def _disk_is_full(error: BaseException, folder: Path) -> bool:
    """By the error's own number where it has one, else by the space that is left.

    torch's zip writer hides the number of an error that the file below it raised.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        seen = seen.__cause__ or seen.__context__
    if any(_disk_is_full(inner, folder) for inner in _inner_errors(error)):
        return True
    nearest = next((parent for parent in [folder, *folder.parents] if parent.exists()), Path("/"))
    return not isinstance(error, OSError) and shutil.disk_usage(nearest).free < 1 << 20


def _inner_errors(error: BaseException) -> list[BaseException]:
    """What torch.distributed.checkpoint wraps: one exception per rank."""
    if isinstance(error, dcp.CheckpointException):
        return [wrapped[0] for wrapped in error.failures.values()]
    return []


def _first_line(error: BaseException) -> str:
    inner = _inner_errors(error)
    told = inner[0] if inner else error
    return f"{type(told).__name__}: {next(iter(str(told).splitlines()), '')}"
