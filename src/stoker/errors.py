"""Errors that a person can act on, and the exit codes of every verb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """What a process tells its caller. Documented in docs/reference/exit-codes.md."""

    OK = 0
    FAILED = 1
    """The work was tried and failed: a run broke, or a diagnosis found something wrong."""
    USAGE = 2
    """A mistake in what was asked for: nothing was started."""
    STOPPED = 75
    """A run was told to stop, saved, and can be resumed (EX_TEMPFAIL of sysexits.h)."""
    INTERRUPTED = 130
    """Interrupted twice from the keyboard: ended at once, without saving."""


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong in what a user wrote.

    Attributes:
        message: What is wrong, and what to write instead, in one sentence.
        where: The place, such as `run.yaml:12` or `command line`; empty if there is none.
    """

    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class UserError(Exception):
    """One or several mistakes of the user: shown as sentences without a traceback, exit code 2.

    >>> raise UserError("the file does not exist: run.yaml")
    Traceback (most recent call last):
    stoker.errors.UserError: the file does not exist: run.yaml
    """

    exit_code: ExitCode = ExitCode.USAGE

    def __init__(self, *mistakes: str | Mistake) -> None:
        self.mistakes: Sequence[Mistake] = [
            mistake if isinstance(mistake, Mistake) else Mistake(mistake) for mistake in mistakes
        ]
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    def __reduce__(self) -> tuple[type[UserError], tuple[Mistake, ...]]:
        return type(self), tuple(self.mistakes)


class RunError(UserError):
    """A run failed for a reason that is known: shown as a sentence without a traceback, exit code 1."""

    exit_code = ExitCode.FAILED
    cause: str = "run-failed"
    """Identifier of the cause, as in docs/reference/causes where it stands there."""


class NotFiniteError(RunError):
    """The loss is no number any more."""

    cause = "loss-became-nan"
